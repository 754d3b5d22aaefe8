#pragma once

#include <cstdint>
#include <string>

namespace millrace {

struct ShapesOptions {
  std::string destination;
  std::int64_t count = 5000;       // training images, over all classes
  std::int64_t validation = 1000;  // test images, over all classes
  std::int64_t size = 32;          // pixels, of both sides
  std::int64_t seed = 1;
  bool force = false;    // write into a folder that is not empty
  unsigned threads = 0;  // 0: one for each processor
};

// Draws DESTINATION/train/<class>/NNNNN.jpg and DESTINATION/test/<class>/NNNNN.jpg (JPEG, quality 90). Every file is a function
// of seed, size and its own place. Files of such names beyond these counts go: an earlier call has drawn them. Throws
// ErrorKind::usage for a folder that is not empty, ErrorKind::storage for what cannot be written.
void make_shapes(const ShapesOptions& options);

}  // namespace millrace
