// Predictions whose values the test gives, and PNG files read back.
#pragma once

#include <gtest/gtest.h>
#include <png.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "millrace/network.h"
#include "millrace/predictions.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/plain.h"
#include "testkit/plain_stream.h"

namespace millrace::testkit {

struct Picture {
  int height = 0, width = 0;
  bool indexed = false;  // `pixels` are indices into `palette`
  std::vector<std::uint8_t> pixels, palette;
};

// A grey file as one channel, a file with a palette as its indices, anything else as R, G, B.
inline Picture read_png(const std::string& file) {
  Picture picture;
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&info, file.c_str()), 0) << file << ": " << info.message;
  picture.indexed = (info.format & PNG_FORMAT_FLAG_COLORMAP) != 0;
  const bool grey = !picture.indexed && (info.format & PNG_FORMAT_FLAG_COLOR) == 0;
  info.format = picture.indexed ? PNG_FORMAT_RGB_COLORMAP : grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  picture.height = static_cast<int>(info.height);
  picture.width = static_cast<int>(info.width);
  picture.pixels.resize(PNG_IMAGE_SIZE(info));
  picture.palette.resize(picture.indexed ? 3 * 256 : 0);
  EXPECT_NE(png_image_finish_read(&info, nullptr, picture.pixels.data(), 0, picture.palette.data()), 0) << info.message;
  return picture;
}

class PictureTest : public testing::Test {
 protected:
  // The network's input and its output.
  PictureTest(ImageShape input, Shape output) : network_(small_network(input, 4, 3)) {
    run_.set_folder(folder_.path());
    network_.layers.back().output = std::move(output);
    context_.graph = "predict";
    context_.network = &network_;
    context_.window = input;
    context_.run = &run_;
  }

  template <class S>
  std::unique_ptr<Harness> made(std::initializer_list<std::pair<const char*, Value>> keys = {}) {
    auto harness = std::make_unique<Harness>(StageTypeAccess::make<S>(), table(keys), context_);
    harness->stage().open();
    return harness;
  }

  // A share of samples "photos/0.jpg", "photos/1.jpg" ...; the last of its pass.
  Ref<Predictions> share(const std::vector<std::vector<float>>& outputs) {
    Ref<Predictions> made = make_ref<Predictions>();
    made->count = static_cast<std::uint32_t>(outputs.size());
    made->last = true;
    auto& values = values_.emplace_back();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      made->samples.emplace_back().url = fmt::format("photos/{}.jpg", i);
      made->samples.back().key.index = 40 + i;
      values.insert(values.end(), outputs[i].begin(), outputs[i].end());
    }
    made->outputs = {{network_.result(), network_.output(), values.data()}};
    made->ready = make_ref<Done>();
    return made;
  }

  // What writing reported.
  static std::vector<Error> write(Harness& harness, const Ref<Predictions>& share) {
    harness.feed(packet(share, share->step));
    harness.output().wait_until_free();
    return harness.output().errors();
  }

  TestFolder folder_;
  RecordedRun run_;
  Network network_;
  StageContext context_;
  std::deque<std::vector<float>> values_;
};

}  // namespace millrace::testkit
