#include "ingest.h"

#include <algorithm>

#include "kernels_fixture.h"

namespace millrace::cuda {
namespace {

constexpr std::int64_t kSamples = 18;

struct Look {  // as View in millrace/backend/backend.h
  int dx = 0, dy = 0;
  bool flip_x = false;
  Border border = Border::reflect;
};

// Random pixels and records; windows smaller and larger than the image.
struct Pixels {
  Pixels(ImageShape image_shape, ImageShape window_shape)
      : image(image_shape), window(window_shape), pixels(kSamples * image.bytes()), records(kSamples) {
    std::mt19937 generator(5);
    const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); };
    for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(draw(0, 255));
    for (float& value : table) value = static_cast<float>(draw(-1000, 1000)) / 256;
    for (AugmentationRecord& record : records) {
      record.border = static_cast<Border>(draw(0, 2));
      for (std::uint8_t& fill : record.fill) fill = static_cast<std::uint8_t>(draw(0, 255));
      if (draw(0, 1) == 1) record.flip_x(window.width);
      if (draw(0, 3) == 1) record.flip_y(window.height);
      record.translate(draw(-9, 9), draw(-9, 9));
    }
  }

  // By the framework's reference: the record's window, transformed by a second record.
  std::vector<std::uint8_t> seen(std::size_t row, std::size_t sample, const Look& look) {
    std::vector<std::uint8_t> once(window.bytes()), twice(window.bytes());
    apply_record(records[row], Image{pixels.data() + sample * image.bytes(), image}, window, once.data());
    AugmentationRecord second;
    second.border = look.border;
    std::copy_n(records[row].fill, 4, second.fill);
    second.translate(look.dx, look.dy);
    if (look.flip_x) second.flip_x(window.width);
    apply_record(second, Image{once.data(), window}, window, twice.data());
    return twice;
  }

  ImageShape image, window;
  std::vector<std::uint8_t> pixels;
  std::vector<AugmentationRecord> records;
  std::vector<float> table = std::vector<float>(4 * 256);
};

template <class T>
void expect_matches(Pixels& p, const Look& look, bool indexed) {
  const std::int64_t area = std::int64_t{p.window.height} * p.window.width;
  std::vector<std::int32_t> index;
  for (std::int32_t n = 0; n < kSamples; ++n) index.push_back(static_cast<std::int32_t>((n * 7 + 3) % kSamples));
  TestMap<T> out(kSamples * area, p.window.channels);
  Ingest<T> element;
  element.pixels = p.pixels.data();
  element.records = p.records.data();
  element.index = indexed ? index.data() : nullptr;
  element.table = p.table.data();
  element.out = out.data();
  element.samples = element.count = kSamples;
  element.image_height = p.image.height, element.image_width = p.image.width, element.channels = p.image.channels;
  element.window_height = p.window.height, element.window_width = p.window.width;
  element.dx = look.dx, element.dy = look.dy, element.flip_x = look.flip_x, element.border = look.border;
  expect_names_its_memory(element, {bytes_of(p.pixels), bytes_of(p.records), bytes_of(p.table), bytes_of(index), out.bytes()});
  for (std::int64_t n = 0; n < kSamples; ++n) {
    const auto row = static_cast<std::size_t>(n), sample = indexed ? static_cast<std::size_t>(index[row]) : row;
    const std::vector<std::uint8_t> expected = p.seen(row, sample, look);
    for (std::int64_t i = 0; i < area * p.window.channels; ++i) {
      const std::int64_t c = i % p.window.channels;
      const float value = p.table[static_cast<std::size_t>(c * 256 + expected[static_cast<std::size_t>(i)])];
      ASSERT_EQ(out.at(n * area + i / p.window.channels, c), static_cast<double>(to_float(from_float<T>(value))))
          << n << ' ' << i;
    }
  }
  out.expect_padding();
}

TEST(Ingest, DoesWhatTheReferenceDoes) {
  const Look looks[] = {{},
                        {1, 1, false, Border::reflect},
                        {-1, -1, true, Border::reflect},
                        {13, 29, false, Border::reflect},
                        {3, -2, true, Border::constant},
                        {-2, 0, false, Border::edge}};
  for (const std::int32_t channels : {1, 3, 4}) {
    for (const ImageShape window : {ImageShape{9, 7, channels}, {6, 5, channels}, {12, 13, channels}, {1, 1, channels}}) {
      for (const ImageShape image : {ImageShape{9, 7, channels}, {1, 1, channels}, {1, 5, channels}}) {
        Pixels p(image, window);
        for (const Look& look : looks) {
          SCOPED_TRACE(to_string(image) + " to " + to_string(window));
          expect_matches<float>(p, look, false);
          expect_matches<Bf16>(p, look, true);
        }
      }
    }
  }
}

TEST(Ingest, AddsNoiseAsItsRecordSays) {
  Pixels p({4, 5, 3}, {4, 5, 3});
  TestMap<float> clean(kSamples * 20, 3), noisy(kSamples * 20, 3);
  Ingest<float> element;
  element.pixels = p.pixels.data();
  element.records = p.records.data();
  element.table = p.table.data();
  element.samples = element.count = kSamples;
  element.image_height = element.window_height = 4, element.image_width = element.window_width = 5, element.channels = 3;
  element.out = clean.data();
  for (std::int64_t i = 0; i < element.size(); ++i) element(i);
  for (std::size_t n = 0; n < p.records.size(); ++n) p.records[n].noise = n == 1 ? 0 : 25, p.records[n].noise_seed = 7;
  element.out = noisy.data();
  for (std::int64_t i = 0; i < element.size(); ++i) element(i);
  for (std::int64_t place = 0; place < 40; ++place) {
    for (std::int64_t c = 0; c < 3; ++c) {
      const auto first = static_cast<std::size_t>(c * 256);
      const double grey_level = static_cast<double>(p.table[first + 255] - p.table[first]) / 255;
      const double deviate = static_cast<double>(normal_deviate(7, static_cast<std::uint32_t>(place % 20 * 3 + c)));
      EXPECT_NEAR(noisy.at(place, c), clean.at(place, c) + (place < 20 ? 25 * grey_level * deviate : 0), 1e-4) << place;
    }
  }
  noisy.expect_padding();
}

// Targets, transformed by the same records as their image.
void expect_target_matches(Pixels& p, const TargetSpec& spec) {
  const ImageShape stored = spec.shape(p.image), window = spec.shape(p.window);
  const bool classes = spec.kind == TargetSpec::Kind::classes;
  std::vector<std::uint8_t> targets(kSamples * stored.bytes()), seen(window.bytes());
  for (std::size_t i = 0; i < targets.size(); ++i)
    targets[i] = static_cast<std::uint8_t>((i * 37 + i / 11) % (classes ? 5 : 256));
  std::vector<float> out(kSamples * window.bytes());
  IngestTarget element;
  element.pixels = targets.data();
  element.records = p.records.data();
  element.table = p.table.data();
  element.out = out.data();
  element.count = kSamples;
  element.image_height = p.image.height, element.image_width = p.image.width, element.channels = stored.channels;
  element.window_height = p.window.height, element.window_width = p.window.width;
  element.scale = spec.scale, element.classes = classes, element.ignored = spec.ignored;
  expect_names_its_memory(element, {bytes_of(targets), bytes_of(p.records), bytes_of(p.table), bytes_of(out)});
  for (std::size_t n = 0; n < kSamples; ++n) {
    apply_record(target_record(p.records[n], spec), Image{targets.data() + n * stored.bytes(), stored}, window, seen.data());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const float as_class = seen[i] == spec.ignored ? -1.0F : static_cast<float>(seen[i]);
      const std::size_t c = i % static_cast<std::size_t>(window.channels);
      ASSERT_EQ(out[n * seen.size() + i], classes ? as_class : p.table[c * 256 + seen[i]]) << n << ' ' << i;
    }
  }
}

TEST(IngestTarget, DoesWhatTheReferenceDoesAtEveryScale) {
  for (const int scale : {1, 2, 3}) {
    for (const ImageShape window : {ImageShape{9, 7, 3}, {6, 5, 3}, {12, 13, 3}, {1, 1, 3}}) {
      for (const ImageShape image : {ImageShape{9, 7, 3}, {1, 1, 3}, {2, 5, 3}}) {
        SCOPED_TRACE(to_string(image) + " to " + to_string(window) + ", scale " + std::to_string(scale));
        Pixels p(image, window);
        TargetSpec spec;
        spec.scale = scale;
        spec.kind = TargetSpec::Kind::image;
        expect_target_matches(p, spec);
        spec.kind = TargetSpec::Kind::classes;
        spec.ignored = 3;
        expect_target_matches(p, spec);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
