// One stage and one sample, for the tests of the stage.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "decode_image.h"
#include "jpeg_images_fixture.h"
#include "millrace/error.h"
#include "png_images_fixture.h"
#include "testkit/files.h"

namespace millrace {

using testing_jpeg::encode;
using testing_jpeg::gradient;
using testing_jpeg::Kind;
using testing_jpeg::Recipe;

using Bytes = std::vector<std::uint8_t>;

class DecodeImageTest : public testing::Test {
 protected:
  Bytes decode(const Bytes& bytes, const DecodeImage::Params& params = {}) {
    DecodeImage stage(params, context_);
    sample_.reset({}, {});
    if (!bytes.empty()) std::memcpy(sample_.encoded.resize(bytes.size()), bytes.data(), bytes.size());
    Draw draw(1, {}, 0);
    stage.process(sample_, draw);
    EXPECT_EQ(draw.hash(), 0U);
    const ImageView image = sample_.image();
    return {image.data, image.data + image.shape.bytes()};
  }
  // The message of the content error for these bytes.
  std::string error_of(const Bytes& bytes, const DecodeImage::Params& params = {}) {
    return testkit::error_of(ErrorKind::content, [&] { decode(bytes, params); }).message();
  }

  StepContext context_;
  Sample sample_;
};

// The mean absolute difference.
inline double distance(const Bytes& a, const Bytes& b) {
  if (a.size() != b.size()) return 255;
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(int{a[i]} - int{b[i]});
  return sum / static_cast<double>(a.size());
}

}  // namespace millrace
