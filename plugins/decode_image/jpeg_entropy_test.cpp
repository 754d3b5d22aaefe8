// Whatever JpegEntropy decodes is what libjpeg's own decoder gives, and what it refuses ends as it does there.
#include "jpeg_entropy.h"

#include <gtest/gtest.h>

#include <csetjmp>
#include <string>
#include <vector>

#include "jpeg_decoder.h"
#include "jpeg_test_images.h"
#include "millrace/error.h"
#include "millrace/random.h"

namespace millrace {
namespace {

using Bytes = std::vector<std::uint8_t>;
using testing_jpeg::Recipe;

struct Outcome {
  bool took_over = false;
  Bytes pixels;
  std::string error;
};

// libjpeg alone, or with `entropy` in its decoder's place; warnings are errors.
class Libjpeg {
 public:
  explicit Libjpeg(JpegEntropy* entropy = nullptr) : entropy_(entropy) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = &on_error;
    errors_.emit_message = [](j_common_ptr common, int level) {
      if (level < 0) on_error(common);
    };
    info_.client_data = this;
    jpeg_create_decompress(&info_);
  }
  ~Libjpeg() { jpeg_destroy_decompress(&info_); }
  Libjpeg(const Libjpeg&) = delete;
  Libjpeg& operator=(const Libjpeg&) = delete;

  Outcome decode(const Bytes& bytes, std::size_t size) {
    Outcome outcome;
    outcome.pixels.resize(size);
    if (!run(bytes, outcome.pixels.data(), outcome.took_over)) {
      outcome.pixels.clear();
      outcome.error = message_;
    }
    return outcome;
  }

 private:
  bool run(const Bytes& bytes, std::uint8_t* out, bool& took_over) {
    if (setjmp(escape_) != 0) return false;
    jpeg_mem_src(&info_, bytes.data(), static_cast<unsigned long>(bytes.size()));
    jpeg_read_header(&info_, TRUE);
    jpeg_start_decompress(&info_);
    if (entropy_ != nullptr && entropy_->prepare(info_)) {
      took_over = true;
      JpegEntropy::take_over(info_, [](j_decompress_ptr info, JBLOCKROW* blocks) -> boolean {
        Libjpeg& self = *static_cast<Libjpeg*>(info->client_data);
        if (self.entropy_->decode(*info, blocks)) return TRUE;
        std::snprintf(self.message_, sizeof self.message_, "refused");
        std::longjmp(self.escape_, 1);
      });
    }
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row =
          out + std::size_t{info_.output_scanline} * info_.output_width * static_cast<unsigned>(info_.output_components);
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  [[noreturn]] static void on_error(j_common_ptr common) {
    Libjpeg& self = *static_cast<Libjpeg*>(common->client_data);
    common->err->format_message(common, self.message_);
    std::longjmp(self.escape_, 1);
  }

  JpegEntropy* entropy_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf escape_{};
  char message_[JMSG_LENGTH_MAX] = {};
};

// Noise over the whole range: long codes, and blocks that have no end but their last coefficient.
Bytes wild(int height, int width, int channels, std::uint64_t seed) {
  Bytes pixels(static_cast<std::size_t>(height * width * channels));
  Draw draw(seed, {}, 0);
  for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(draw.integer(0, 255));
  return pixels;
}

bool can_take_over() {
  JpegEntropy entropy;
  return Libjpeg(&entropy).decode(encode(Recipe{}), std::size_t{16} * 16 * 3).took_over;
}

class JpegEntropyTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_take_over()) GTEST_SKIP() << "jpegint.h of libjpeg-turbo is not installed";
  }
};

TEST_F(JpegEntropyTest, GivesTheBytesOfLibjpeg) {
  struct Sampling {
    int horizontal, vertical;
  };
  constexpr int kHeight = 83, kWidth = 131;
  JpegEntropy entropy;  // one for all: tables change from image to image
  for (const auto kind : {testing_jpeg::Kind::grey, testing_jpeg::Kind::rgb, testing_jpeg::Kind::ycck}) {
    const int channels = components(kind);
    for (const Sampling& sampling : {Sampling{1, 1}, {2, 1}, {2, 2}, {1, 2}}) {
      for (const int quality : {20, 75, 95, 100}) {
        for (const bool optimized : {false, true}) {
          for (const bool is_wild : {false, true}) {
            Recipe recipe{.height = kHeight, .width = kWidth, .kind = kind, .quality = quality};
            recipe.horizontal = sampling.horizontal;
            recipe.vertical = sampling.vertical;
            recipe.optimized = optimized;
            recipe.pixels = is_wild ? wild(kHeight, kWidth, channels, 3) : testing_jpeg::noise(kHeight, kWidth, channels, 3);
            const Bytes bytes = encode(recipe);
            const std::size_t size = recipe.pixels.size();
            const Outcome own = Libjpeg(&entropy).decode(bytes, size), theirs = Libjpeg().decode(bytes, size);
            ASSERT_TRUE(own.took_over);
            ASSERT_EQ(own.error, "");
            ASSERT_EQ(own.pixels, theirs.pixels)
                << "quality " << quality << ", " << channels << " channels, " << sampling.horizontal << " x " << sampling.vertical
                << (optimized ? ", optimized" : "");
          }
        }
      }
    }
  }
}

TEST_F(JpegEntropyTest, LeavesToLibjpegWhatIsNotPlain) {
  JpegEntropy entropy;
  for (const bool progressive : {false, true}) {
    Recipe recipe{.height = 40, .width = 40, .progressive = progressive};
    recipe.restart = progressive ? 0 : 4;
    const Outcome outcome = Libjpeg(&entropy).decode(encode(recipe), std::size_t{40} * 40 * 3);
    EXPECT_FALSE(outcome.took_over);
    EXPECT_EQ(outcome.error, "");
  }
}

TEST_F(JpegEntropyTest, RefusesBytesTooManyOrTooFew) {
  Recipe recipe{.height = 64, .width = 64};
  recipe.pixels = testing_jpeg::noise(64, 64, 3, 1);
  const Bytes sound = encode(recipe);
  const std::size_t size = recipe.pixels.size();
  JpegEntropy entropy;
  ASSERT_EQ(Libjpeg(&entropy).decode(sound, size).error, "");
  Bytes more = sound;
  more.insert(more.end() - 2, 7);
  EXPECT_EQ(Libjpeg(&entropy).decode(more, size).error, "refused");
  Bytes less = sound;
  less.erase(less.end() - 12, less.end() - 2);
  EXPECT_EQ(Libjpeg(&entropy).decode(less, size).error, "refused");
  const Bytes no_end(sound.begin(), sound.end() - 2);
  EXPECT_FALSE(Libjpeg(&entropy).decode(no_end, size).took_over);
}

// Of files that are large enough for the decoder to try it.
TEST(JpegDamage, EndsAsItDoesInLibjpeg) {
  constexpr int kSide = 160;
  Recipe recipe{.height = kSide, .width = kSide};
  recipe.horizontal = recipe.vertical = 1;
  recipe.pixels = testing_jpeg::noise(kSide, kSide, 3, 2);
  const Bytes sound = encode(recipe);
  ASSERT_GT(sound.size(), 20'000U);
  JpegDecoder decoder;
  Draw draw(11, {}, 0);
  int errors = 0, decoded = 0;
  for (int round = 0; round < 400; ++round) {
    Bytes bytes = sound;
    const auto at = static_cast<std::size_t>(draw.integer(700, static_cast<std::int64_t>(bytes.size()) - 1));
    if (round % 4 == 0) {
      bytes.resize(at);
    } else if (round % 4 == 1) {
      bytes[at] ^= static_cast<std::uint8_t>(1 << draw.integer(0, 7));
    } else {
      for (std::size_t i = at; i < std::min(bytes.size(), at + 8); ++i)
        bytes[i] = static_cast<std::uint8_t>(draw.integer(0, 255));
    }
    const Outcome expected = Libjpeg().decode(bytes, recipe.pixels.size());
    Bytes pixels(recipe.pixels.size());
    try {
      decoder.read_header(bytes, 3, {});
      decoder.decode(pixels.data());
      ASSERT_EQ(expected.error, "") << "round " << round;
      ASSERT_EQ(pixels, expected.pixels) << "round " << round;
      ++decoded;
    } catch (const Error& error) {
      ASSERT_NE(expected.error, "") << "round " << round << ": " << error.what();
      ASSERT_NE(std::string(error.what()).find(expected.error), std::string::npos) << error.what() << "; " << expected.error;
      ++errors;
    }
  }
  EXPECT_GT(errors, 100);
  EXPECT_GT(decoded, 20);
}

}  // namespace
}  // namespace millrace
