#include "png_decoder.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <numeric>
#include <string_view>

#include "millrace/error.h"
#include "millrace/util/colour.h"
#include "millrace/util/label_values.h"

namespace millrace {

namespace {

std::optional<std::uint8_t> value_of_class(const TargetSpec& spec, std::size_t label) {
  const auto at = std::ranges::find(spec.classes, label);
  if (at == spec.classes.end()) return std::nullopt;
  return static_cast<std::uint8_t>(at - spec.classes.begin());
}

constexpr std::int64_t kLongestSide = 65'535;
constexpr int kPasses = 7;  // passes of an interlaced image

enum Colour : unsigned { kGrey = 0, kRgb = 2, kPalette = 3, kGreyAlpha = 4, kRgba = 6 };

std::string describe(unsigned depth, unsigned colour) {
  switch (colour) {
    case kGrey: return fmt::format("{}-bit grey", depth);
    case kPalette: return fmt::format("{}-bit palette", depth);
    case kGreyAlpha: return fmt::format("{}-bit grey with alpha", depth);
    case kRgb: return fmt::format("{}-bit RGB", depth);
    default: return fmt::format("{}-bit RGB with alpha", depth);
  }
}

std::uint8_t value_of_16_bits(std::uint32_t stored) {
  if (stored > 255)
    fail(ErrorKind::content, "a label image of 16 bits has the value {}: those of classes are at most 255", stored);
  return static_cast<std::uint8_t>(stored);
}

// Grey stored as RGB has a value even without class colours.
std::uint8_t value_of_colour(std::uint32_t rgb, const LabelColours* colours) {
  if (colours != nullptr) return colours->value_of(rgb);
  if (rgb != (rgb & 0xffU) * 0x010101U) {
    fail(ErrorKind::content,
         "a label image in RGB has the colour #{0:06x}: name the class of each colour, as in classes = [{{ name = \"road\", "
         "colour = \"#{0:06x}\" }}], or save it as a grey or palette PNG, whose values are classes",
         rgb);
  }
  return static_cast<std::uint8_t>(rgb & 0xffU);
}

}  // namespace

std::optional<LabelColours> label_colours(const std::vector<std::string>& colours, const TargetSpec& spec) {
  const auto other = value_of_class(spec, spec.ignored);
  if (colours.empty() || spec.kind != TargetSpec::Kind::classes || !other) return std::nullopt;
  LabelColours found{{}, *other, reads_palettes_by_colour(spec, colours.size())};
  for (std::size_t label = 0; label < colours.size(); ++label) {
    const auto value = value_of_class(spec, label);
    const auto [red, green, blue] = parse_colour(colours[label], "colours");
    if (value) found.values.emplace_back(std::uint32_t{red} << 16U | std::uint32_t{green} << 8U | blue, *value);
  }
  std::ranges::stable_sort(found.values, {}, &std::pair<std::uint32_t, std::uint8_t>::first);
  return found;
}

std::uint8_t LabelColours::value_of(std::uint32_t colour) const {
  const auto at = std::ranges::lower_bound(values, colour, {}, &std::pair<std::uint32_t, std::uint8_t>::first);
  return at != values.end() && at->first == colour ? at->second : other;
}

void* PngMemory::take(std::size_t bytes) noexcept {
  constexpr std::size_t kAlignment = alignof(std::max_align_t);
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (pieces_.empty() || pieces_.back().size - used_ < bytes) {
    std::size_t all = bytes;
    for (const Piece& piece : pieces_) all += piece.size;
    if (all > kMax) return nullptr;
    const std::size_t size = std::max(kPiece, bytes);
    try {
      pieces_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
    } catch (const std::bad_alloc&) {  // must not pass through libpng
      is_exhausted_ = true;
      return nullptr;
    }
    used_ = 0;
  }
  used_ += bytes;
  return pieces_.back().bytes.get() + (used_ - bytes);
}

void PngMemory::reset() {
  if (pieces_.size() > 1) pieces_.erase(pieces_.begin(), pieces_.end() - 1);
  used_ = 0;
  is_exhausted_ = false;
}

// One image's libpng objects. run() calls setjmp; it and libpng's frames above it have no objects with destructors.
struct PngDecoder::Reading {
  enum class Attempt {
    plain,     // ignores zlib's checksum: the chunks have their own
    by_zlib,   // chunk checksums are wrong, so zlib's must be right
    piecemeal  // byte by byte, up to the last pixel before damage
  };

  PngDecoder* decoder = nullptr;
  Region region;
  std::uint8_t* out = nullptr;  // the region's rows, or all rows if interlaced
  std::size_t row_bytes = 0;
  std::span<const std::uint8_t> left;
  Attempt attempt = Attempt::plain;
  png_structp png = nullptr;
  png_infop info = nullptr;
  bool truncated = false;
  bool is_altered = false;  // a pixel chunk's checksum is wrong
  char message[160] = {};
  std::jmp_buf escape{};

  bool run();
  void set_up();
  void name_indices();
  void transform();
  void read_rows();
  bool has_rows() const;      // at least one
  bool has_all_rows() const;  // all needed ones
  [[noreturn]] void give_up(const char* reason);
  void judge(const char* warning);
  void feed(png_bytep to, std::size_t bytes);

  static Reading& of(png_voidp pointer) { return *static_cast<Reading*>(pointer); }
};

void PngDecoder::Reading::give_up(const char* reason) {
  std::snprintf(message, sizeof message, "%s", reason);
  std::longjmp(escape, 1);
}

// libpng begins a warning with the chunk's name. No other chunk changes a pixel, because alpha is dropped and no profile applied;
// defects in rows or in the order of chunks are errors. An index beyond the palette is black as in other decoders; in a label
// image it is an ordinary value.
void PngDecoder::Reading::judge(const char* warning) {
  const std::string_view text(warning);
  const bool defines_colours = text.starts_with("PLTE") && decoder->colour_ == kPalette;
  if (text.starts_with("IHDR") || defines_colours) {
    if (!decoder->limits_.allow_warnings) give_up(warning);
  }
  if (!text.starts_with("IDAT")) return;
  if (text.ends_with("CRC error")) {
    is_altered = true;
  } else if (attempt == Attempt::by_zlib) {
    give_up(warning);
  }
}

void PngDecoder::Reading::feed(png_bytep to, std::size_t bytes) {
  if (bytes > left.size()) {
    truncated = true;
    give_up("it ends too early");
  }
  std::memcpy(to, left.data(), bytes);
  left = left.subspan(bytes);
}

// libpng reads past the last row while it returns that row. Errors there do not matter: all rows are complete.
bool PngDecoder::Reading::run() {
  if (setjmp(escape) != 0) return has_all_rows() && attempt != Attempt::by_zlib;
  set_up();
  transform();
  read_rows();
  return true;
}

void PngDecoder::Reading::set_up() {
  const auto on_error = [](png_structp p, png_const_charp text) { of(png_get_error_ptr(p)).give_up(text); };
  const auto on_warning = [](png_structp p, png_const_charp text) { of(png_get_error_ptr(p)).judge(text); };
  const auto take = [](png_structp p, png_alloc_size_t bytes) { return of(png_get_mem_ptr(p)).decoder->memory_.take(bytes); };
  const auto give_back = [](png_structp, png_voidp) {};
  png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, this, take, give_back);
  if (png == nullptr) give_up("libpng cannot be used");
  info = png_create_info_struct(png);
  if (info == nullptr) give_up("libpng cannot be used");
  png_set_benign_errors(png, 1);  // they become warnings
  png_set_crc_action(png, PNG_CRC_WARN_USE, PNG_CRC_WARN_DISCARD);
  png_set_option(png, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
#ifdef PNG_IGNORE_ADLER32  // missing in Debian 13's libpng: see read()
  if (attempt != Attempt::by_zlib) png_set_option(png, PNG_IGNORE_ADLER32, PNG_OPTION_ON);
#endif
  if (attempt == Attempt::piecemeal) png_set_compression_buffer_size(png, 1);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // texts, profiles, ...: never stored
  png_set_user_limits(png, kLongestSide, kLongestSide);
  png_set_read_fn(png, this, [](png_structp p, png_bytep to, std::size_t bytes) { of(png_get_io_ptr(p)).feed(to, bytes); });
  png_read_info(png, info);
  if (decoder->labels_ && decoder->colour_ == kPalette) name_indices();
}

void PngDecoder::Reading::name_indices() {
  const LabelColours* const colours = decoder->label_colours_;
  std::iota(decoder->palette_values_.begin(), decoder->palette_values_.end(), std::uint8_t{0});
  if (colours == nullptr || !colours->of_palettes) return;
  png_colorp palette = nullptr;
  int size = 0;
  png_get_PLTE(png, info, &palette, &size);
  decoder->palette_values_.fill(colours->other);
  for (int i = 0; i < size; ++i) {
    const png_color& rgb = palette[i];
    decoder->palette_values_[static_cast<std::size_t>(i)] =
        colours->value_of(std::uint32_t{rgb.red} << 16U | std::uint32_t{rgb.green} << 8U | rgb.blue);
  }
}

void PngDecoder::Reading::transform() {
  if (decoder->colour_ == kGrey && decoder->depth_ < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (decoder->labels_) {
    png_set_packing(png);  // unpacks indices
    if (decoder->colour_ == kRgba) png_set_strip_alpha(png);
  } else {
    if (decoder->colour_ == kPalette) png_set_palette_to_rgb(png);
    if (decoder->depth_ == 16) png_set_scale_16(png);
    png_set_strip_alpha(png);
    const bool grey = decoder->colour_ == kGrey || decoder->colour_ == kGreyAlpha;
    if (grey && decoder->shape_.channels == 3) png_set_gray_to_rgb(png);
  }
  if (decoder->interlaced_) png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != row_bytes) give_up("its rows contradict the width in its header");
}

bool PngDecoder::Reading::has_rows() const {
  return png != nullptr && (png_get_current_row_number(png) > 0 || png_get_current_pass_number(png) > 0);
}

bool PngDecoder::Reading::has_all_rows() const {
  if (png == nullptr) return false;
  if (decoder->interlaced_) return png_get_current_pass_number(png) == kPasses;
  return png_get_current_row_number(png) >= static_cast<png_uint_32>(region.top + region.height);
}

void PngDecoder::Reading::read_rows() {
  const int height = decoder->shape_.height, end = region.top + region.height;
  if (decoder->interlaced_) {
    for (int pass = 0; pass < kPasses; ++pass) {
      for (int row = 0; row < height; ++row) png_read_row(png, out + static_cast<std::size_t>(row) * row_bytes, nullptr);
    }
  } else {
    for (int row = 0; row < region.top; ++row) png_read_row(png, decoder->skipped_.data(), nullptr);
    for (int row = 0; row < region.height; ++row) png_read_row(png, out + static_cast<std::size_t>(row) * row_bytes, nullptr);
    if (end < height && attempt != Attempt::by_zlib) return;
    for (int row = end; row < height; ++row) png_read_row(png, decoder->skipped_.data(), nullptr);  // checksum of all
  }
  png_read_end(png, nullptr);
}

ImageShape PngDecoder::read_header(std::span<const std::uint8_t> bytes, int channels, const DecodeLimits& limits) {
  constexpr std::size_t kHeader = 8 + 25;  // the signature and IHDR
  if (bytes.size() < kHeader) fail(ErrorKind::content, "the PNG is truncated: {} bytes", bytes.size());
  const auto number = [&](std::size_t at) {
    return std::uint32_t{bytes[at]} << 24 | std::uint32_t{bytes[at + 1]} << 16 | std::uint32_t{bytes[at + 2]} << 8 |
           bytes[at + 3];
  };
  if (number(8) != 13 || std::memcmp(bytes.data() + 12, "IHDR", 4) != 0)
    fail(ErrorKind::content, "the PNG is damaged: it does not begin with a header");
  const std::int64_t width = number(16), height = number(20);
  depth_ = bytes[24];
  colour_ = bytes[25];
  interlaced_ = bytes[28] == 1;
  if (width == 0 || height == 0) fail(ErrorKind::content, "the PNG is damaged: {} x {} pixels", height, width);
  check_pixels(height, width, limits);
  if (std::max(width, height) > kLongestSide)
    fail(ErrorKind::content, "{} x {} pixels: a side may have at most {}", height, width, kLongestSide);
  constexpr std::int64_t kMaxDeflation = 1032;  // zlib's maximum ratio
  const std::int64_t bits = (colour_ == kRgb ? 3 : colour_ == kGreyAlpha ? 2 : colour_ == kRgba ? 4 : 1) * std::int64_t{depth_};
  if (height * (width * bits / 8) / kMaxDeflation > static_cast<std::int64_t>(bytes.size()) && !limits.allow_warnings)
    fail(ErrorKind::content, "the PNG is truncated: {} bytes cannot hold {} x {} pixels", bytes.size(), height, width);
  bytes_ = bytes;
  limits_ = limits;
  labels_ = false;
  const bool grey = colour_ == kGrey || colour_ == kGreyAlpha;
  file_channels_ = grey && channels == 1 ? 1 : 3;
  shape_ = {static_cast<std::int32_t>(height), static_cast<std::int32_t>(width), channels};
  return shape_;
}

int PngDecoder::stored_channels() const { return colour_ == kGrey ? 1 : colour_ == kGreyAlpha ? 2 : colour_ == kRgba ? 4 : 3; }

ImageShape PngDecoder::read_label_header(std::span<const std::uint8_t> bytes, const DecodeLimits& limits,
                                         const LabelColours* colours) {
  read_header(bytes, 1, limits);
  const bool is_rgb = colour_ == kRgb || colour_ == kRgba;
  if (colour_ == kGreyAlpha || (is_rgb && depth_ > 8)) {
    fail(ErrorKind::content, "a label image of {}: save it as a grey or palette PNG, whose values are classes",
         describe(depth_, colour_));
  }
  labels_ = true;
  label_colours_ = colours;
  limits_.allow_warnings = false;  // black is a class
  file_channels_ = is_rgb ? 3 : depth_ > 8 ? 2 : 1;
  return shape_;
}

void PngDecoder::read(const Region& region, std::uint8_t* out, std::size_t row_bytes) {
  using Attempt = Reading::Attempt;
  Reading reading;
  bool good = false, has_rows = false;
  const auto try_to = [&](Attempt attempt) {
    memory_.reset();
    reading = {this, region, out, row_bytes, bytes_, attempt};
    good = reading.run();
    has_rows = reading.has_rows();
    if (reading.png != nullptr) png_destroy_read_struct(&reading.png, &reading.info, nullptr);
    if (memory_.is_exhausted()) throw std::bad_alloc();
  };
  try_to(Attempt::plain);
  // If libpng checks zlib's checksum anyway, it has read all pixels before, byte by byte.
  const bool is_checksum = std::string_view(reading.message).ends_with("incorrect data check");
  if (!good && (limits_.allow_warnings || reading.truncated || is_checksum)) try_to(Attempt::piecemeal);
  if (limits_.allow_warnings) {
    good = good || has_rows;
  } else if (good && reading.is_altered) {
    try_to(Attempt::by_zlib);
    if (!good) fail(ErrorKind::content, "the PNG is damaged: the checksums of its pixels are wrong");
  }
  if (good) return;
  if (reading.truncated) fail(ErrorKind::content, "the PNG is truncated");
  fail(ErrorKind::content, "the PNG is damaged or of an unsupported kind: {}", reading.message);
}

PixelRows PngDecoder::decode_part(const Region& region, ByteBuffer& buffer) {
  const auto width = static_cast<std::size_t>(shape_.width);
  const std::size_t row_bytes = width * file_channels_;
  const int rows = interlaced_ ? shape_.height : region.height;
  std::uint8_t* pixels = buffer.resize(static_cast<std::size_t>(rows) * row_bytes);
  if (skipped_.size() < row_bytes) skipped_.resize(row_bytes);
  if (interlaced_ || limits_.allow_warnings) std::fill_n(pixels, static_cast<std::size_t>(rows) * row_bytes, std::uint8_t{0});
  read(region, pixels, row_bytes);
  PixelRows part{pixels, {region.height, region.width, shape_.channels}, row_bytes};
  if (interlaced_) part.data += static_cast<std::size_t>(region.top) * row_bytes;
  if (file_channels_ > 1 && shape_.channels == 1) {
    const std::size_t count = static_cast<std::size_t>(rows) * width;
    if (labels_)
      to_label_values(pixels, count);
    else
      to_luminance(pixels, count, pixels);
    part.stride = width;
    part.data = pixels + (interlaced_ ? static_cast<std::size_t>(region.top) * width : 0);
  }
  if (labels_ && colour_ == kPalette) {
    const std::size_t count = static_cast<std::size_t>(rows) * width;
    std::transform(pixels, pixels + count, pixels, [this](std::uint8_t index) { return palette_values_[index]; });
  }
  part.data += static_cast<std::size_t>(region.left) * static_cast<std::size_t>(shape_.channels);
  return part;
}

void PngDecoder::to_label_values(std::uint8_t* pixels, std::size_t count) const {
  const std::uint8_t* from = pixels;
  std::optional<std::uint32_t> last;  // neighbours are mostly equal
  std::uint8_t value = 0;
  for (std::size_t i = 0; i < count; ++i, from += file_channels_) {
    std::uint32_t stored = 0;
    for (std::size_t byte = 0; byte < file_channels_; ++byte) stored = stored << 8U | from[byte];
    if (stored != last) {
      value = file_channels_ == 2 ? value_of_16_bits(stored) : value_of_colour(stored, label_colours_);
      last = stored;
    }
    pixels[i] = value;
  }
}

void to_luminance(const std::uint8_t* rgb, std::size_t pixels, std::uint8_t* grey) {
  for (std::size_t i = 0; i < pixels; ++i, rgb += 3)
    grey[i] = static_cast<std::uint8_t>((19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 32768U) >> 16);
}

}  // namespace millrace
