// Properties of an image's file before preparation, to warn when a network receives files unlike its training data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "millrace/sample.h"

namespace millrace {

struct ImageFacts {
  std::string_view format = {};  // "JPEG", "PNG"; "pixels" if the source delivers pixels
  int height = 0, width = 0;     // upright, if the stage turns images
  int channels = 0;              // as stored: 1 grey, 2 grey and alpha, 3 colours, 4 colours and alpha, or inks
  int bits = 0;                  // of a value
  int orientation = 1;           // by which the stage turns it upright, as EXIF has it
  double mean = 0, deviation = 0, least = 0, most = 0;  // of its values, 0 ... 1, in a small version of the image
  // The original of a file that `pipeline-data pack` has shrunk or rewritten; 0: the file is the original.
  struct Origin {
    int height = 0, width = 0, channels = 0, bits = 0;
  };
  Origin origin = {};
};

// What `pack` notes of it, in a comment of the JPEG that it writes, and what the first bytes of a file say of it.
std::string origin_comment(const ImageFacts::Origin& origin);
ImageFacts::Origin origin_in(std::span<const std::uint8_t> file);

// A stage that decodes files implements this too.
class KnowsImageFacts {
 public:
  virtual ~KnowsImageFacts() = default;
  // REQUIRES: the sample is as its source delivered it. Throws ErrorKind::content for an image that cannot be decoded.
  // Thread-safe.
  virtual ImageFacts facts(const Sample& sample) const = 0;
};

}  // namespace millrace
