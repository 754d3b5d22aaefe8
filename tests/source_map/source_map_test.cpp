// An image whose pixels encode their position goes through randomly drawn lines of stages; the source map must lead each pixel
// that the network would see to the place in the upright, whole image with the same levels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/plugin.h"
#include "millrace/util/batch_input.h"
#include "millrace/util/load_plugins.h"
#include "plugins/stages/decode_image/jpeg_images_fixture.h"
#include "plugins/stages/decode_image/png_images_fixture.h"
#include "testkit/harness.h"

namespace millrace::test {
namespace {

using testkit::table;

const Registry& registry() {
  static const Registry loaded = [] {
    Registry made;
    load_all_plugins(made);
    return made;
  }();
  return loaded;
}

// Channel 0 counts rows and channel 1 columns, in levels; channel 2 is white, and pixels filled by a border rule are black.
struct Pattern {
  int height = 0, width = 0;
  double levels = 2;  // per row or column

  std::vector<std::uint8_t> pixels() const {
    std::vector<std::uint8_t> out;
    for (int i = 0; i < height * width; ++i) {
      out.push_back(static_cast<std::uint8_t>(std::lround(10 + levels * (i / width))));
      out.push_back(static_cast<std::uint8_t>(std::lround(10 + levels * (i % width))));
      out.push_back(255);
    }
    return out;
  }
  std::vector<std::uint8_t> jpeg(int orientation) const {
    testing_jpeg::Recipe recipe{.height = height, .width = width, .quality = 100, .horizontal = 1, .vertical = 1};
    recipe.orientation = orientation;
    recipe.pixels = pixels();
    return testing_jpeg::encode(recipe);
  }
  std::vector<std::uint8_t> png(int orientation) const {
    testing_png::Recipe recipe{.height = height, .width = width};
    recipe.orientation = orientation;
    const std::vector<std::uint8_t> bytes = pixels();
    recipe.values.assign(bytes.begin(), bytes.end());
    return testing_png::encode(recipe);
  }
};

// An image to compare with.
struct Picture {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;

  // Between pixels; empty beyond the centres of the edge pixels.
  std::optional<double> level(double x, double y, int channel) const {
    const double left = std::floor(x), top = std::floor(y);
    if (left < 0 || top < 0 || left >= shape.width - 1 || top >= shape.height - 1) return {};
    const auto at = [&](double row, double column) {
      const auto i = static_cast<std::size_t>(row) * static_cast<std::size_t>(shape.width) + static_cast<std::size_t>(column);
      return static_cast<double>(pixels[3 * i + static_cast<std::size_t>(channel)]);
    };
    const double right = x - left, below = y - top;
    return (1 - below) * ((1 - right) * at(top, left) + right * at(top, left + 1)) +
           below * ((1 - right) * at(top + 1, left) + right * at(top + 1, left + 1));
  }
};

// One sample in stages that are made one by one.
class Line {
 public:
  Line(const std::vector<std::uint8_t>& file, ImageShape window, std::uint64_t seed) : window_(window), seed_(seed) {
    sample().reset({.epoch = 0, .position = seed, .index = seed}, {});
    std::memcpy(sample().encoded.resize(file.size()), file.data(), file.size());
  }

  void add(const char* stage, const Value& parameters = {}) {
    StepContext context;
    context.name = stage;
    context.seed = seed_;
    context.image = {0, 0, 3};
    context.window = window_;
    testkit::Harness harness(*registry().stages().find(stage), parameters, context);
    harness.feed(testkit::chunk(batch_, 0, 1));
    ASSERT_FALSE(sample().fault) << stage << ": " << sample().fault->cause;
    what_ += std::string(" ") + stage;
  }

  Sample& sample() { return batch_->samples[0]; }
  const std::string& what() const { return what_; }

  // Through `batch`, with the part that the network sees.
  Picture end(SourceMap& source) {
    const ImageShape stored = sample().image().shape, window = window_.is_static() ? window_ : stored;
    const Ref<Batch> batch = testkit::make_batch(1, stored, window);
    StepContext context;
    context.image = stored;
    context.window = window;
    const Image image = batch->samples[0].new_image(stored);
    std::copy_n(sample().image().data, stored.bytes(), image.data);
    batch->samples[0].set_image(image, sample().source_map());
    batch->samples[0].record = sample().record;
    batch->samples[0].windowed = sample().windowed;
    source = seen_source(sample(), window);
    testkit::Harness harness(*registry().stages().find("batch"), table({{"size", Value(1)}}), context);
    harness.feed(testkit::whole(batch));
    EXPECT_EQ(seen_source(*batch, 0), source) << "in the batch";
    Picture seen{window, std::vector<std::uint8_t>(window.bytes())};
    apply_record(batch->records[0], {batch->pixels, stored}, window, seen.pixels.data());
    return seen;
  }

 private:
  Ref<Batch> batch_ = testkit::make_batch(1, {1, 1, 1});
  ImageShape window_;
  std::uint64_t seed_;
  std::string what_;
};

Picture whole(const std::vector<std::uint8_t>& file) {
  Line line(file, {}, 0);
  line.add("decode_image");
  const ImageView image = line.sample().image();
  EXPECT_EQ(line.sample().source_map(), (SourceMap{image.shape.height, image.shape.width, {}}));
  return {image.shape, {image.data, image.data + image.shape.bytes()}};
}

struct Tolerance {
  double levels = 2;  // by rounding
  int white = 254;    // a pixel with a darker third channel is partly filled
};

// Each pixel lands within half a pixel (of the visible image, if it is smaller than the source); on average much nearer. Returns
// the number of levels compared.
int expect_same_places(const Picture& seen, const SourceMap& source, const Picture& expected, double levels_per_pixel,
                       const Tolerance& tolerance) {
  EXPECT_EQ(source.height, expected.shape.height);
  EXPECT_EQ(source.width, expected.shape.width);
  const AffineMap& map = source.map;
  const double scale = std::max({1.0, std::abs(map.xx) + std::abs(map.xy), std::abs(map.yx) + std::abs(map.yy)});
  double sum[2] = {}, worst = 0;
  int compared = 0;
  for (int i = 0; i < seen.shape.height * seen.shape.width; ++i) {
    const int column = i % seen.shape.width, row = i / seen.shape.width;
    const std::uint8_t* const pixel = seen.pixels.data() + 3 * i;
    const double x = map.xx * column + map.xy * row + map.x0, y = map.yx * column + map.yy * row + map.y0;
    if (pixel[2] < tolerance.white || !expected.level(x, y, 0)) continue;
    for (int channel = 0; channel < 2; ++channel) {
      const double difference = pixel[channel] - *expected.level(x, y, channel);
      sum[channel] += difference;
      worst = std::max(worst, std::abs(difference));
    }
    ++compared;
  }
  EXPECT_LE(worst, 0.5 * scale * levels_per_pixel + tolerance.levels);
  if (compared < 50) return compared;
  for (const double signed_sum : sum) EXPECT_LE(std::abs(signed_sum / compared), 0.1 * scale * levels_per_pixel + 0.3);
  return compared;
}

Value pair(std::int64_t height, std::int64_t width) { return Value(Array{Value(height), Value(width)}); }
Value range(double low, double high) { return Value(Array{Value(low), Value(high)}); }

// Decodes in one of the possible ways, to at least 24 x 24.
void decode_somehow(Line& line, Draw& draw, const Pattern& pattern) {
  const Value size = pair(draw.integer(24, 70), draw.integer(24, 70));
  const Value filter = Value(draw.chance(0.5) ? "bicubic" : "bilinear");
  const std::int64_t shorter = std::min(pattern.height, pattern.width);
  switch (draw.integer(0, 5)) {
    case 0: return line.add("decode_image");
    case 1: return line.add("decode_image", table({{"size", size}, {"fit", Value("exact")}, {"filter", filter}}));
    case 2: return line.add("decode_image", table({{"short_side", Value(draw.integer(24, 90))}, {"filter", filter}}));
    case 3:
      return line.add("decode_image",
                      table({{"size", pair(draw.integer(24, shorter), draw.integer(24, shorter))}, {"crop", Value("centre")}}));
    case 4:
      return line.add(
          "decode_image",
          table({{"size", size}, {"short_side", Value(draw.integer(70, 100))}, {"crop", Value("centre")}, {"filter", filter}}));
    default:
      return line.add("decode_image",
                      table({{"size", size}, {"random_resized_crop", table({{"area", range(0.2, 1)}})}, {"filter", filter}}));
  }
}

void augment_somehow(Line& line, Draw& draw) {
  Value parameters = table({{"flip_x", Value(0.5)}, {"flip_y", Value(0.5)}});
  parameters.set("translate", table({{"x", range(-5, 5)}, {"y", range(-5, 5)}}));
  if (draw.chance(0.3)) parameters.set("rotate", range(-40, 40));
  if (draw.chance(0.3)) parameters.set("scale", range(0.8, 1.3));
  if (draw.chance(0.2)) parameters.set("shear_x", range(-15, 15));
  if (draw.chance(0.2)) {
    const Value size = pair(draw.integer(24, 50), draw.integer(24, 50));
    parameters.set("random_resized_crop", table({{"size", size}, {"area", range(0.3, 1)}}));
  }
  if (draw.chance(0.2)) parameters.set("erase", table({{"chance", Value(0.5)}, {"value", Value("constant")}}));
  line.add("augment", parameters);
}

void change_somehow(Line& line, Draw& draw) {
  const ImageShape shape = line.sample().image().shape;
  switch (draw.integer(0, 4)) {
    case 0: return line.add("resize", table({{"size", pair(draw.integer(24, 70), draw.integer(24, 70))}}));
    case 1: return line.add("resize", table({{"short_side", Value(draw.integer(24, 70))}}));
    case 2:
      return line.add(
          "crop",
          table({{"size", pair(draw.integer(shape.height * 3 / 4, shape.height), draw.integer(shape.width * 3 / 4, shape.width))},
                 {"position", Value(draw.chance(0.5) ? "random" : "centre")}}));
    case 3:
      return line.add("pad", table({{"margin", pair(draw.integer(0, 6), draw.integer(0, 6))}, {"fill", Value(Array{Value(0)})}}));
    default: return augment_somehow(line, draw);
  }
}

TEST(SourceMap, LeadsBackFromAnyLineOfStages) {
  std::uint64_t all = 0;
  for (std::uint64_t seed = 0; seed < 400 && !testing::Test::HasFailure(); ++seed) {
    Draw draw(seed, {}, 1);
    const Pattern pattern{static_cast<int>(draw.integer(60, 110)), static_cast<int>(draw.integer(60, 110))};
    const bool is_jpeg = draw.chance(0.3);
    const int orientation = static_cast<int>(draw.integer(0, 8));
    const std::vector<std::uint8_t> file = is_jpeg ? pattern.jpeg(orientation) : pattern.png(orientation);
    const ImageShape window = draw.chance(0.5) ? ImageShape{16, 20, 3} : ImageShape{};
    Line line(file, window, seed);
    decode_somehow(line, draw, pattern);
    const std::int64_t more = draw.integer(0, 4);
    for (std::int64_t i = 0; i < more && !testing::Test::HasFailure(); ++i) change_somehow(line, draw);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
    const ImageShape last = line.sample().image().shape;
    if (window.is_static() && (last.height < window.height || last.width < window.width)) {
      line.add("resize", table({{"size", pair(30, 30)}}));
    }
    SourceMap source;
    const Picture seen = line.end(source);
    ASSERT_TRUE(source.is_known()) << line.what();
    const double rounding = 1.5 + 0.6 * static_cast<double>(more);
    const Tolerance tolerance = is_jpeg ? Tolerance{rounding + 4, 250} : Tolerance{rounding, 254};
    all += static_cast<std::uint64_t>(expect_same_places(seen, source, whole(file), pattern.levels, tolerance));
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", orientation " << orientation << ":" << line.what();
  }
  EXPECT_GT(all, 200'000U);
}

// At an eighth, a quarter and a half of the size, as JPEGs are decoded.
TEST(SourceMap, LeadsBackFromAJpegThatWasDecodedSmaller) {
  const Pattern pattern{443, 638, 0.35};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::vector<std::uint8_t> file = pattern.jpeg(orientation);
    const Picture expected = whole(file);
    for (const std::int64_t side : {31, 52, 100, 215, 300}) {
      for (std::int64_t way = 0; way < 4; ++way) {
        Line line(file, {}, static_cast<std::uint64_t>(side));
        const Value size = pair(side, side + 7);
        switch (way) {
          case 0: line.add("decode_image", table({{"short_side", Value(side)}})); break;
          case 1: line.add("decode_image", table({{"size", size}, {"fit", Value("exact")}})); break;
          case 2:
            line.add("decode_image", table({{"size", size}, {"short_side", Value(side + 20)}, {"crop", Value("centre")}}));
            break;
          default: line.add("decode_image", table({{"size", size}, {"random_resized_crop", table({{"area", range(0.5, 0.9)}})}}));
        }
        SourceMap source;
        const Picture seen = line.end(source);
        ASSERT_TRUE(source.is_known());
        EXPECT_GT(expect_same_places(seen, source, expected, pattern.levels, {3, 250}), 700)
            << orientation << ": " << side << " in way " << way;
      }
    }
  }
}

TEST(SourceMap, OfAPhotoThatIsNotTurnedIsThatOfWhatIsStored) {
  const Pattern pattern{60, 80};
  Line line(pattern.jpeg(6), {}, 0);
  line.add("decode_image", table({{"exif", Value(false)}, {"short_side", Value(30)}}));
  EXPECT_EQ(line.sample().source_map(), (SourceMap{60, 80, {2, 0, 0.5, 0, 2, 0.5}}));
}

// Pixels from a source that decodes itself.
TEST(SourceMap, LeadsBackToPixelsThatWereNoFile) {
  const Pattern pattern{60, 80};
  Line line(pattern.pixels(), {}, 0);
  line.sample().decoded = {60, 80, 3};
  line.add("decode_image", table({{"size", pair(40, 40)}, {"crop", Value("centre")}}));
  EXPECT_EQ(line.sample().source_map(), (SourceMap{60, 80, AffineMap::translation(20, 10)}));
}

}  // namespace
}  // namespace millrace::test
