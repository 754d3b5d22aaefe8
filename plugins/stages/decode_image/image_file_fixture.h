// An image file, decoded whole and in part.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "image_file.h"
#include "millrace/sample.h"

namespace millrace {

using Pixels = std::vector<std::uint8_t>;

inline Pixels render(ImageFile& file, const Excerpt& excerpt, int channels, ResampleFilter filter = ResampleFilter::bilinear) {
  Pixels out(static_cast<std::size_t>(excerpt.height * excerpt.width * channels));
  file.render(excerpt, filter, {out.data(), {excerpt.height, excerpt.width, channels}});
  return out;
}

inline Box box_of(const Region& r) {
  return {static_cast<float>(r.left), static_cast<float>(r.top), static_cast<float>(r.left + r.width),
          static_cast<float>(r.top + r.height)};
}

inline Excerpt cut(const Region& r) { return {r, box_of(r), r.height, r.width, false}; }

struct Whole {
  ImageShape shape;
  Pixels pixels;

  Pixels part(const Region& region) const {
    Pixels out;
    const std::size_t c = static_cast<std::size_t>(shape.channels), stride = static_cast<std::size_t>(shape.width) * c;
    for (int row = 0; row < region.height; ++row) {
      const auto at = pixels.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(region.top + row) * stride +
                                                                   static_cast<std::size_t>(region.left) * c);
      out.insert(out.end(), at, at + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(region.width) * c));
    }
    return out;
  }
};

inline Whole decode(ImageFile& file, const Pixels& bytes, int channels = 3, bool exif = true) {
  Whole whole;
  whole.shape = file.open(bytes, channels, {}, exif);
  whole.pixels = render(file, cut({0, 0, whole.shape.height, whole.shape.width}), channels);
  return whole;
}

inline Region some_region(Draw& draw, const ImageShape& shape) {
  Region r;
  r.height = static_cast<int>(draw.integer(1, shape.height));
  r.width = static_cast<int>(draw.integer(1, shape.width));
  r.top = static_cast<int>(draw.integer(0, shape.height - r.height));
  r.left = static_cast<int>(draw.integer(0, shape.width - r.width));
  return r;
}

// Every region decoded on its own equals that region of the whole decode.
inline void expect_parts_of_the_whole(const Pixels& bytes, int channels, int rounds, const std::string& what) {
  ImageFile file;
  const Whole whole = decode(file, bytes, channels);
  Draw draw(7, {}, 7);
  for (int round = 0; round < rounds; ++round) {
    const Region region = some_region(draw, whole.shape);
    file.open(bytes, channels, {}, true);
    ASSERT_EQ(render(file, cut(region), channels), whole.part(region))
        << what << ": " << region.height << " x " << region.width << " at " << region.top << ", " << region.left;
  }
}

}  // namespace millrace
