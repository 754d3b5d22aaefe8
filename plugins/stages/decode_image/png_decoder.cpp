#include "png_decoder.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "millrace/error.h"

namespace millrace {

namespace {

constexpr std::int64_t kLongestSide = 65'535;

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

}  // namespace

void* PngMemory::take(std::size_t bytes) {
  constexpr std::size_t kAlignment = alignof(std::max_align_t);
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (pieces_.empty() || pieces_.back().size - used_ < bytes) {
    std::size_t all = bytes;
    for (const Piece& piece : pieces_) all += piece.size;
    if (all > kMost) return nullptr;
    const std::size_t size = std::max(kPiece, bytes);
    pieces_.push_back({std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[size]), size});
    used_ = 0;
    if (!pieces_.back().bytes) {
      pieces_.pop_back();
      return nullptr;
    }
  }
  used_ += bytes;
  return pieces_.back().bytes.get() + (used_ - bytes);
}

void PngMemory::reset() {
  if (pieces_.size() > 1) pieces_.erase(pieces_.begin(), pieces_.end() - 1);
  used_ = 0;
}

// One image's libpng objects. run() sets the escape; it and libpng's frames above it hold nothing that has a destructor.
struct PngDecoder::Reading {
  PngDecoder& decoder;
  Region region;
  std::uint8_t* out;  // of the region's rows, or of all rows where the image is interlaced
  std::size_t row_bytes;
  std::span<const std::uint8_t> left;
  png_structp png = nullptr;
  png_infop info = nullptr;
  bool truncated = false;
  char message[160] = {};
  std::jmp_buf escape{};

  bool run();
  void set_up();
  void transform();
  void read_rows();
  [[noreturn]] void give_up(const char* reason);

  static Reading& of(png_voidp pointer) { return *static_cast<Reading*>(pointer); }
};

void PngDecoder::Reading::give_up(const char* reason) {
  std::snprintf(message, sizeof message, "%s", reason);
  std::longjmp(escape, 1);
}

bool PngDecoder::Reading::run() {
  if (setjmp(escape) != 0) return false;
  set_up();
  transform();
  read_rows();
  return true;
}

void PngDecoder::Reading::set_up() {
  const auto on_error = [](png_structp p, png_const_charp text) { of(png_get_error_ptr(p)).give_up(text); };
  const auto on_warning = [](png_structp p, png_const_charp text) {
    Reading& reading = of(png_get_error_ptr(p));
    if (!reading.decoder.limits_.allow_warnings) reading.give_up(text);
  };
  const auto take = [](png_structp p, png_alloc_size_t bytes) { return of(png_get_mem_ptr(p)).decoder.memory_.take(bytes); };
  const auto give_back = [](png_structp, png_voidp) {};
  png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, this, take, give_back);
  if (png == nullptr) give_up("libpng cannot be used");
  info = png_create_info_struct(png);
  if (info == nullptr) give_up("out of memory");
  const bool strict = !decoder.limits_.allow_warnings;
  png_set_benign_errors(png, strict ? 0 : 1);
  png_set_crc_action(png, strict ? PNG_CRC_ERROR_QUIT : PNG_CRC_WARN_USE, strict ? PNG_CRC_ERROR_QUIT : PNG_CRC_WARN_DISCARD);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // texts, profiles, ...: never stored
  png_set_user_limits(png, kLongestSide, kLongestSide);
  png_set_read_fn(png, this, [](png_structp p, png_bytep to, std::size_t bytes) {
    Reading& reading = of(png_get_io_ptr(p));
    if (bytes > reading.left.size()) {
      reading.truncated = true;
      reading.give_up("it ends too early");
    }
    std::memcpy(to, reading.left.data(), bytes);
    reading.left = reading.left.subspan(bytes);
  });
  png_read_info(png, info);
}

void PngDecoder::Reading::transform() {
  if (decoder.labels_) {
    png_set_packing(png);
  } else {
    if (decoder.colour_ == kPalette) png_set_palette_to_rgb(png);
    if (decoder.colour_ == kGrey && decoder.depth_ < 8) png_set_expand_gray_1_2_4_to_8(png);
    if (decoder.depth_ == 16) png_set_scale_16(png);
    png_set_strip_alpha(png);
    const bool grey = decoder.colour_ == kGrey || decoder.colour_ == kGreyAlpha;
    if (grey && decoder.shape_.channels == 3) png_set_gray_to_rgb(png);
  }
  if (decoder.interlaced_) png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != row_bytes) give_up("its rows are not as long as its header says");
}

void PngDecoder::Reading::read_rows() {
  if (decoder.interlaced_) {
    constexpr int kPasses = 7;
    for (int pass = 0; pass < kPasses; ++pass) {
      for (int row = 0; row < decoder.shape_.height; ++row)
        png_read_row(png, out + static_cast<std::size_t>(row) * row_bytes, nullptr);
    }
  } else {
    for (int row = 0; row < region.top; ++row) png_read_row(png, decoder.skipped_.data(), nullptr);
    for (int row = 0; row < region.height; ++row) png_read_row(png, out + static_cast<std::size_t>(row) * row_bytes, nullptr);
  }
  if (decoder.interlaced_ || region.top + region.height == decoder.shape_.height) png_read_end(png, nullptr);
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
    fail(ErrorKind::content, "{} x {} pixels: a side may have {}", height, width, kLongestSide);
  constexpr std::int64_t kMostDeflation = 1032;  // that zlib can reach
  const std::int64_t bits = (colour_ == kRgb ? 3 : colour_ == kGreyAlpha ? 2 : colour_ == kRgba ? 4 : 1) * std::int64_t{depth_};
  if (height * (width * bits / 8) / kMostDeflation > static_cast<std::int64_t>(bytes.size()))
    fail(ErrorKind::content, "the PNG is truncated: {} bytes cannot hold {} x {} pixels", bytes.size(), height, width);
  bytes_ = bytes;
  limits_ = limits;
  labels_ = false;
  const bool grey = colour_ == kGrey || colour_ == kGreyAlpha;
  file_channels_ = grey && channels == 1 ? 1 : 3;
  shape_ = {static_cast<std::int32_t>(height), static_cast<std::int32_t>(width), channels};
  return shape_;
}

ImageShape PngDecoder::read_label_header(std::span<const std::uint8_t> bytes, const DecodeLimits& limits) {
  read_header(bytes, 1, limits);
  if (depth_ > 8 || (colour_ != kGrey && colour_ != kPalette)) {
    fail(ErrorKind::content, "a label image of {}: expected a grey or palette PNG of up to 8 bits, whose values are classes",
         describe(depth_, colour_));
  }
  labels_ = true;
  file_channels_ = 1;
  return shape_;
}

PixelRows PngDecoder::decode_part(const Region& region, ByteBuffer& buffer) {
  const auto width = static_cast<std::size_t>(shape_.width);
  const std::size_t row_bytes = width * file_channels_;
  const int rows = interlaced_ ? shape_.height : region.height;
  std::uint8_t* pixels = buffer.resize(static_cast<std::size_t>(rows) * row_bytes);
  if (interlaced_) std::fill_n(pixels, static_cast<std::size_t>(rows) * row_bytes, std::uint8_t{0});
  if (skipped_.size() < row_bytes) skipped_.resize(row_bytes);
  memory_.reset();
  Reading reading{*this, region, pixels, row_bytes, bytes_};
  const bool good = reading.run();
  if (reading.png != nullptr) png_destroy_read_struct(&reading.png, &reading.info, nullptr);
  if (!good && reading.truncated) fail(ErrorKind::content, "the PNG is truncated");
  if (!good) fail(ErrorKind::content, "the PNG is damaged or of an unsupported kind: {}", reading.message);
  PixelRows part{pixels, {region.height, region.width, shape_.channels}, row_bytes};
  if (interlaced_) part.data += static_cast<std::size_t>(region.top) * row_bytes;
  if (file_channels_ == 3 && shape_.channels == 1) {
    to_luminance(pixels, static_cast<std::size_t>(rows) * width, pixels);
    part.stride = width;
    part.data = pixels + (interlaced_ ? static_cast<std::size_t>(region.top) * width : 0);
  }
  part.data += static_cast<std::size_t>(region.left) * static_cast<std::size_t>(shape_.channels);
  return part;
}

void to_luminance(const std::uint8_t* rgb, std::size_t pixels, std::uint8_t* grey) {
  for (std::size_t i = 0; i < pixels; ++i, rgb += 3)
    grey[i] = static_cast<std::uint8_t>((19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 32768U) >> 16);
}

}  // namespace millrace
