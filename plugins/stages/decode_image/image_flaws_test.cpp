// Three grades: defects that change no pixel are accepted, damage is not, and allow_warnings accepts the readable part.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "image_file_fixture.h"
#include "jpeg_images_fixture.h"
#include "millrace/error.h"
#include "png_images_fixture.h"
#include "testkit/files.h"

namespace millrace {
namespace {

struct Flaw {
  std::string name;
  Pixels bytes;
};

std::ptrdiff_t signed_of(std::size_t at) { return static_cast<std::ptrdiff_t>(at); }

Pixels with(Pixels bytes, std::size_t at, std::initializer_list<std::uint8_t> more) {
  bytes.insert(bytes.begin() + signed_of(at), more);
  return bytes;
}

Pixels changed(Pixels bytes, std::size_t at, std::initializer_list<std::uint8_t> to) {
  std::copy(to.begin(), to.end(), bytes.begin() + signed_of(at));
  return bytes;
}

Pixels cut_off(Pixels bytes, std::size_t count) {
  bytes.resize(bytes.size() - count);
  return bytes;
}

Pixels zeroed(Pixels bytes, std::size_t begin, std::size_t end) {
  std::fill(bytes.begin() + signed_of(begin), bytes.begin() + signed_of(end), std::uint8_t{0});
  return bytes;
}

// Decoded whole, in part, and reduced to a quarter: three paths through the decoders.
struct Views {
  Pixels whole, part, reduced;
  friend bool operator==(const Views&, const Views&) = default;
};

Views views_of(ImageFile& file, const Pixels& bytes, const DecodeLimits& limits = {}) {
  Views views;
  const ImageShape shape = file.open(bytes, 3, limits, true);
  const Region all{0, 0, shape.height, shape.width}, part{shape.height / 2, 3, shape.height - shape.height / 2, shape.width - 5};
  views.whole = render(file, cut(all), 3);
  file.open(bytes, 3, limits, true);
  views.part = render(file, cut(part), 3);
  file.open(bytes, 3, limits, true);
  views.reduced = render(file, {all, box_of(all), shape.height / 4, shape.width / 4, true}, 3);
  return views;
}

std::string error_of(ImageFile& file, const Pixels& bytes, bool reduced) {
  const ImageShape shape = file.open(bytes, 3, {}, true);
  const Region all{0, 0, shape.height, shape.width};
  return testkit::error_of(
             ErrorKind::content,
             [&] {
               render(file, reduced ? Excerpt{all, box_of(all), shape.height / 4, shape.width / 4, true} : cut(all), 3);
             })
      .message();
}

void expect_harmless(const std::vector<Flaw>& flaws, const Views& expected) {
  ImageFile file;
  DecodeLimits lenient;
  lenient.allow_warnings = true;
  for (const Flaw& flaw : flaws) {
    try {
      EXPECT_TRUE(views_of(file, flaw.bytes) == expected) << flaw.name;
      EXPECT_TRUE(views_of(file, flaw.bytes, lenient) == expected) << flaw.name;
    } catch (const Error& error) {
      ADD_FAILURE() << flaw.name << ": " << error.what();
    }
  }
}

void expect_damage(const std::vector<Flaw>& flaws) {
  ImageFile file;
  DecodeLimits lenient;
  lenient.allow_warnings = true;
  for (const Flaw& flaw : flaws) {
    for (const bool reduced : {false, true}) EXPECT_NE(error_of(file, flaw.bytes, reduced), "nothing was thrown") << flaw.name;
    EXPECT_NO_THROW(views_of(file, flaw.bytes, lenient)) << flaw.name;
  }
}

// Position of the first segment of this kind, including its marker.
std::size_t segment(const Pixels& jpeg, std::uint8_t marker) {
  std::size_t at = 2;
  while (jpeg[at + 1] != marker) at += std::size_t{2} + jpeg[at + 2] * 256U + jpeg[at + 3];
  return at;
}

// Small ones are left to libjpeg, larger ones go through JpegEntropy.
Pixels noisy_jpeg(int side, bool progressive = false) {
  testing_jpeg::Recipe recipe{.height = side, .width = side, .progressive = progressive};
  recipe.pixels = testing_jpeg::noise(side, side, 3, 5);
  return encode(recipe);
}

std::vector<Flaw> harmless_flaws_of(const Pixels& good) {
  const std::size_t end = good.size() - 2, jfif = segment(good, 0xe0), scan = segment(good, 0xda);
  const std::size_t selection = scan + 2 + good[scan + 3] - 3;  // first and last coefficient, and the bits of each
  Pixels adobe = good;
  adobe.erase(adobe.begin() + signed_of(jfif), adobe.begin() + signed_of(jfif + 18));
  std::vector<Flaw> flaws = {
      {"a scan of no coefficients, as of Samsung's phones", changed(good, selection, {0, 0, 0})},
      {"a scan of one coefficient", changed(good, selection, {0, 1, 0})},
      {"a scan of some bits", changed(good, selection, {0, 63, 0x11})},
      {"bytes before a segment", with(good, segment(good, 0xdb), {1, 2, 3})},
      {"bytes before the frame", with(good, segment(good, 0xc0), {0})},
      {"bytes before the scan", with(good, scan, {0, 0})},
      {"a segment longer than it says", with(good, 2, {0xff, 0xe1, 0, 8, 'E', 'x', 'i', 'f', 0, 0, 7, 8, 9})},
      {"an empty segment", with(good, 2, {0xff, 0xe5, 0, 2})},
      {"a JFIF of the future", changed(good, jfif + 9, {9})},
      {"an unknown colour transform of Adobe's",
       with(adobe, 2, {0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 7})},
      {"no end marker", cut_off(good, 2)},
      {"half an end marker", cut_off(good, 1)},
      {"bytes after the end", with(good, good.size(), {'j', 'u', 'n', 'k', 0xff, 0xd8, 0xff})},
      {"zeros after the scan", with(good, end, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})},
      {"other bytes after the scan", with(good, end, {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0x12, 0x34, 0x56, 0x78, 0x9a})},
  };
  return flaws;
}

// A progressive JPEG with its second scan first; each scan keeps the tables before it.
Pixels with_second_scan_first(Pixels bytes) {
  const auto end_of_scan = [&](std::size_t at) {
    while (bytes[at + 1] != 0xda) at += std::size_t{2} + bytes[at + 2] * 256U + bytes[at + 3];
    do ++at;
    while (bytes[at] != 0xff || bytes[at + 1] == 0);
    return at;
  };
  const std::size_t first = segment(bytes, 0xc4), second = end_of_scan(first), third = end_of_scan(second);
  std::rotate(bytes.begin() + signed_of(first), bytes.begin() + signed_of(second), bytes.begin() + signed_of(third));
  return bytes;
}

TEST(JpegFlaws, ThatChangeNoPixelAreTaken) {
  ImageFile file;
  for (const int side : {48, 260}) {
    const Pixels good = noisy_jpeg(side);
    EXPECT_EQ(good.size() > 16'000, side == 260);
    expect_harmless(harmless_flaws_of(good), views_of(file, good));
  }
  const Pixels progressive = noisy_jpeg(48, true);
  const std::size_t end = progressive.size() - 2;
  expect_harmless({{"progressive, no end marker", cut_off(progressive, 2)},
                   {"progressive, zeros after a scan", with(progressive, end, {0, 0, 0})},
                   {"progressive, details before means", with_second_scan_first(progressive)}},
                  views_of(file, progressive));
}

TEST(JpegFlaws, ThatChangePixelsAreDamage) {
  for (const int side : {48, 260}) {
    const Pixels good = noisy_jpeg(side);
    const std::size_t size = good.size(), scan = segment(good, 0xda);
    Pixels ended = cut_off(good, size / 3), shorter = good;
    ended.insert(ended.end(), {0xff, 0xd9});
    const std::size_t frame = segment(good, 0xc0);
    shorter[frame + 5] = 0;
    shorter[frame + 6] = static_cast<std::uint8_t>(side - 16);  // leaves codes over, as if one had lost its length
    expect_damage({{"truncated", cut_off(good, size / 2)},
                   {"truncated a little", cut_off(good, 12)},
                   {"truncated and ended", ended},
                   {"zeros to the end", zeroed(good, size / 2, size)},
                   {"a hole", zeroed(good, scan + 400, scan + 464)},
                   {"codes after the scan", shorter}});
  }
  const Pixels progressive = noisy_jpeg(48, true);
  const std::uint8_t marker[] = {0xff, 0xda};
  const auto last = std::find_end(progressive.begin(), progressive.end(), std::begin(marker), std::end(marker));
  expect_damage({{"progressive, truncated", cut_off(progressive, progressive.size() / 2)},
                 {"progressive, without the last scan", Pixels(progressive.begin(), last)}});
}

void put_number(Pixels& bytes, std::size_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(number >> shift));
}

// With a right or wrong checksum.
Pixels chunk(const std::string& name, const Pixels& content, bool sound = true) {
  Pixels bytes;
  put_number(bytes, content.size());
  bytes.insert(bytes.end(), name.begin(), name.end());
  bytes.insert(bytes.end(), content.begin(), content.end());
  const uLong sum = crc32(0, bytes.data() + 4, static_cast<uInt>(bytes.size() - 4));
  put_number(bytes, (sum ^ (sound ? 0U : 1U)) & 0xffffffffU);
  return bytes;
}

Pixels compressed(const Pixels& raw) {
  uLongf size = compressBound(static_cast<uLong>(raw.size()));
  Pixels stream(size);
  compress(stream.data(), &size, raw.data(), static_cast<uLong>(raw.size()));
  stream.resize(size);
  return stream;
}

// Parts of an RGB image, for invalid combinations.
struct Png {
  static constexpr int kSide = 120;

  Pixels header, raw, stream;
  std::string before, name = "IDAT";

  explicit Png(int colour = 2) {
    const int channels = colour == 2 ? 3 : 1;
    const Pixels values = testing_jpeg::noise(kSide, kSide, channels, 3);
    const std::size_t row_bytes = static_cast<std::size_t>(kSide * channels);
    for (std::size_t row = 0; row < kSide; ++row) {
      raw.push_back(0);  // no filter
      for (std::size_t i = 0; i < row_bytes; ++i)
        raw.push_back(
            static_cast<std::uint8_t>(channels == 1 ? values[row * row_bytes + i] % 32 : values[row % 40 * row_bytes + i]));
    }
    stream = compressed(raw);
    put_number(header, kSide);
    put_number(header, kSide);
    header.insert(header.end(), {8, static_cast<std::uint8_t>(colour), 0, 0, 0});
  }

  static Pixels joined(std::initializer_list<Pixels> parts) {
    Pixels bytes = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    for (const Pixels& part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
    return bytes;
  }
  Pixels head() const { return chunk("IHDR", header); }
  static Pixels end() { return chunk("IEND", {}); }
  Pixels of(const Pixels& data, bool sound = true) const { return joined({head(), chunk("IDAT", data, sound), end()}); }
  Pixels after_header(const Pixels& part) const { return joined({head(), part, chunk("IDAT", stream), end()}); }
  Pixels good() const { return of(stream); }
};

// A window of 256 bytes in zlib's header, which is wrong for the data.
Pixels with_small_window(Pixels stream) {
  stream[0] = 0x08;
  stream[1] = static_cast<std::uint8_t>(31 - 0x0800 % 31);
  return stream;
}

TEST(PngFlaws, ThatChangeNoPixelAreTaken) {
  const Png png;
  const Pixels good = png.good(), data = chunk("IDAT", png.stream);
  const std::size_t checksum = png.stream.size() - 4;
  Pixels more_rows = png.raw;
  more_rows.resize(more_rows.size() + 200);
  std::vector<Flaw> flaws = {
      {"a window that is too small", png.of(with_small_window(png.stream))},
      {"no end", cut_off(good, 12)},
      {"half an end", cut_off(good, 5)},
      {"an end with a wrong checksum", Png::joined({png.head(), data, chunk("IEND", {}, false)})},
      {"bytes after the end", with(good, good.size(), {0, 0, 0, 7})},
      {"a text after the pixels with a wrong checksum",
       Png::joined({png.head(), data, chunk("tEXt", {'a', 0, 'b'}, false), Png::end()})},
      {"zlib's checksum wrong", png.of(changed(png.stream, checksum, {1, 2, 3, 4}))},
      {"zlib's checksum missing", png.of(cut_off(png.stream, 4))},
      {"cut off within zlib's checksum", cut_off(good, 12 + 4 + 2)},
      {"the chunk's checksum wrong", png.of(png.stream, false)},
      {"bytes after the compressed ones", png.of(with(png.stream, png.stream.size(), {0, 0, 0}))},
      {"more rows than the header says", png.of(compressed(more_rows))},
      {"a palette that is none, of RGB", png.after_header(chunk("PLTE", {1, 2, 3, 4}))},
      {"a large chunk of one's own", png.after_header(chunk("prVt", Pixels(9'000'000)))},
  };
  for (const char* name :
       {"tEXt", "zTXt", "iTXt", "iCCP", "sRGB", "gAMA", "cHRM", "tIME", "pHYs", "tRNS", "bKGD", "sBIT", "prVt"}) {
    flaws.push_back({std::string(name) + " with a wrong checksum", png.after_header(chunk(name, {1, 2, 3, 4}, false))});
    flaws.push_back({std::string(name) + " of nonsense", png.after_header(chunk(name, {255, 2, 3}))});
  }
  ImageFile file;
  expect_harmless(flaws, views_of(file, good));
}

TEST(PngFlaws, ThatChangePixelsAreDamage) {
  const Png png;
  const Pixels good = png.good();
  Pixels less = png.raw;
  less.resize(less.size() * 2 / 3);
  Pixels altered = png.stream;
  altered[altered.size() - 7] ^= 1;
  Pixels first = png.stream, rest = first;
  first.resize(first.size() / 2);
  rest.erase(rest.begin(), rest.begin() + signed_of(first.size()));
  const Pixels altered_parts = Png::joined(
      {png.head(), chunk("IDAT", first, false), chunk("IDAT", changed(rest, rest.size() - 4, {1, 2, 3, 4})), Png::end()});
  expect_damage(
      {{"truncated", cut_off(good, good.size() / 3)},
       {"truncated a little", cut_off(good, 40)},
       {"zeros to the end", zeroed(good, good.size() / 2, good.size())},
       {"less rows than the header says", png.of(compressed(less))},
       {"both checksums wrong", png.of(changed(png.stream, png.stream.size() - 4, {1, 2, 3, 4}), false)},
       {"both checksums wrong, of two chunks", altered_parts},
       {"the header's checksum wrong", Png::joined({chunk("IHDR", png.header, false), chunk("IDAT", png.stream), Png::end()})}});
}

TEST(PngFlaws, IndicesBeyondThePaletteAreLabelsAndBlackPixels) {
  const Png png(3);
  Pixels palette(96), longer(768);
  for (std::size_t i = 0; i < palette.size(); ++i) palette[i] = longer[i] = static_cast<std::uint8_t>(i * 5 + 1);
  Pixels raw = png.raw;
  raw[1] = 255;
  const auto file_with = [&](const Pixels& colours) {
    return Png::joined(
        {png.head(), chunk("PLTE", colours), chunk("tRNS", Pixels(200, 9)), chunk("IDAT", compressed(raw)), Png::end()});
  };
  ImageFile file;
  EXPECT_TRUE(views_of(file, file_with(palette)) == views_of(file, file_with(longer)));
  const Pixels bytes = file_with(palette);
  file.open_labels(bytes, {});
  EXPECT_EQ(render(file, cut({0, 0, 1, 1}), 1), Pixels{255});
}

TEST(PngFlaws, LabelsAreWholeWhateverIsAllowed) {
  const Png png(0);
  const Pixels cut = cut_off(png.good(), png.good().size() / 2);
  ImageFile file;
  DecodeLimits lenient;
  lenient.allow_warnings = true;
  file.open_labels(cut, lenient);
  EXPECT_THROW(render(file, millrace::cut({0, 0, Png::kSide, Png::kSide}), 1), Error) << "black is a class";
}

TEST(PngFlaws, MissingRowsAreBlackIfTheyAreAllowed) {
  ImageFile file;
  DecodeLimits lenient;
  lenient.allow_warnings = true;
  const Png png;
  const Pixels good = png.good();
  const Views whole = views_of(file, good);
  const Pixels half = cut_off(good, good.size() / 2);
  const Pixels rows = views_of(file, half, lenient).whole;
  const auto [first, same] = std::mismatch(rows.begin(), rows.end(), whole.whole.begin());
  EXPECT_GT(first - rows.begin(), signed_of(rows.size() / 10)) << "the rows before the end are there";
  const auto row_bytes = static_cast<std::ptrdiff_t>(Png::kSide * 3);
  EXPECT_TRUE(std::all_of(rows.begin() + ((first - rows.begin()) / row_bytes + 1) * row_bytes, rows.end(),
                          [](auto v) { return v == 0; }));
  const Pixels no_row = cut_off(good, good.size() - 60);
  EXPECT_THROW(views_of(file, no_row, lenient), Error) << "there is nothing";

  testing_png::Recipe flat{.height = 600, .width = 600};  // at zlib's maximum ratio
  flat.values.resize(600 * 600 * 3, 200);
  const Pixels one_colour = encode(flat);
  EXPECT_EQ(views_of(file, cut_off(one_colour, one_colour.size() / 2), lenient).whole.front(), 200);

  testing_png::Recipe recipe{.height = 40, .width = 40, .interlaced = true};
  recipe.values = random_values(recipe, 3);
  const Pixels interlaced = encode(recipe);
  const Pixels passes = views_of(file, cut_off(interlaced, interlaced.size() / 2), lenient).whole;
  EXPECT_GT(std::count_if(passes.begin(), passes.end(), [](auto v) { return v != 0; }), signed_of(passes.size() / 4));
}

}  // namespace
}  // namespace millrace
