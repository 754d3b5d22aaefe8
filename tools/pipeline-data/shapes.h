#pragma once

#include <cstdint>
#include <string>

namespace millrace {

struct ShapesOptions {
  std::string destination;
  std::int64_t count = 5000;       // training images, over all classes
  std::int64_t validation = 1000;  // test images, over all classes
  std::int64_t size = 32;          // pixels, both sides
  std::int64_t seed = 1;
  bool force = false;    // allow a folder that is not empty
  unsigned threads = 0;  // 0: one per processor
};

// Draws DESTINATION/train/<class>/NNNNN.jpg and DESTINATION/test/<class>/NNNNN.jpg (JPEG, quality 90). Every file is a function
// of seed, size and its own place. Removes files with such names beyond these counts, which an earlier call has drawn. Throws
// ErrorKind::usage for a folder that is not empty, ErrorKind::storage for write failures.
void make_shapes(const ShapesOptions& options);

}  // namespace millrace
