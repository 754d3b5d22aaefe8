// Images of which only the header is there, and annotations of them.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "millrace/plugin.h"
#include "millrace/sample.h"
#include "millrace/util/load_plugins.h"
#include "read_annotations.h"
#include "testkit/files.h"
#include "testkit/harness.h"

namespace millrace {

using Texts = std::vector<std::string>;
using Made = ReadAnnotations::Made;

class ReadAnnotationsTest : public testing::Test {
 protected:
  ReadAnnotationsTest() {
    for (const char* plugin : {"storage_file", "annotations", "decode_image"})
      load_plugin(registry_, fmt::format(MILLRACE_PLUGINS "/{}.so", plugin));
    context_.registry = &registry_;
    context_.run = &run_;
  }

  void image(const std::string& name, int width = 6, int height = 4) {
    std::string bytes = "\x89PNG\r\n\x1a\n";
    bytes += std::string("\0\0\0\rIHDR", 8);
    for (const int side : {width, height}) bytes += {'\0', '\0', static_cast<char>(side / 256), static_cast<char>(side % 256)};
    folder_.write("images/" + name, bytes);
  }
  ReadAnnotations::Params params(const std::string& annotations, Made target = Made::map) {
    ReadAnnotations::Params params;
    params.images = folder_ / "images";
    params.annotations = folder_ / annotations;
    params.target = target;
    return params;
  }
  ReadAnnotations::Params written(const std::string& name, std::string_view text, Made target = Made::map) {
    folder_.write(name, text);
    return params(name, target);
  }
  std::shared_ptr<ReadAnnotations> opened(const ReadAnnotations::Params& params) {
    auto source = std::make_shared<ReadAnnotations>(params, context_);
    source->open();
    return source;
  }
  std::string error_of(const ReadAnnotations::Params& params) {
    return testkit::error_of([&] { opened(params); }).what();
  }

  // "a.png 001100/..." with the map's rows, or "a.png cat", or "a.png 1,0" with numbers.
  Texts samples(const ReadAnnotations::Params& params) {
    const auto source = opened(params);
    Texts result;
    Sample sample;
    for (std::uint64_t index = 0; index < source->size(); ++index) {
      testkit::read(*source, index, sample);
      EXPECT_LE(sample.encoded.size() + sample.encoded_target.size(), source->largest_encoded());
      const std::string name = sample.url.substr((folder_ / "images/").size());
      result.push_back(name + " " +
                       (params.target == Made::map         ? rows(sample.encoded_target)
                        : params.target == Made::one_class ? source->classes()[static_cast<std::size_t>(sample.label)]
                                                           : fmt::format("{}", fmt::join(sample.numbers, ","))));
    }
    return result;
  }

  // The rows of a small PNG that stores its pixels in one block; 255 is 'x'.
  static std::string rows(const ByteBuffer& png) {
    const auto side = [&](std::size_t at) { return static_cast<std::size_t>(png.data()[at + 2] * 256 + png.data()[at + 3]); };
    const std::size_t width = side(16), height = side(20);
    std::string text;
    for (std::size_t y = 0; y < height; ++y) {
      for (std::size_t x = 0; x < width; ++x) {
        const std::uint8_t value = png.data()[33 + 8 + 2 + 5 + y * (width + 1) + 1 + x];
        text += value == 255 ? 'x' : static_cast<char>('0' + value);
      }
      if (y + 1 < height) text += '/';
    }
    return text;
  }

  testkit::TestFolder folder_;
  Registry registry_;
  testkit::RecordedRun run_;
  StepContext context_;
};

}  // namespace millrace
