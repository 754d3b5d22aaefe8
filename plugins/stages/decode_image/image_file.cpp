#include "image_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "millrace/error.h"
#include "orientation.h"

namespace millrace {

namespace {

struct Magic {
  std::size_t offset;
  std::string_view bytes;
  std::string_view name;
};

using namespace std::string_view_literals;

constexpr Magic kMagics[] = {
    {0, "GIF8"sv, "a GIF image"},
    {8, "WEBP"sv, "a WebP image"},
    {0, "II*\0"sv, "a TIFF image"},
    {0, "MM\0*"sv, "a TIFF image"},
    {4, "ftypavif"sv, "an AVIF image"},
    {4, "ftyphei"sv, "a HEIC image"},
    {4, "ftypmif1"sv, "a HEIC image"},
    {0, "\0\0\0\x0cjP  "sv, "a JPEG 2000 image"},
    {0, "\xff\x4f\xff\x51"sv, "a JPEG 2000 image"},
    {0, "\xff\x0a"sv, "a JPEG XL image"},
    {0, "BM"sv, "a BMP image"},
    {0, "%PDF"sv, "a PDF document"},
    {0, "PK\x03\x04"sv, "a ZIP archive"},
    {0, "\x1f\x8b"sv, "a gzip file"},
    {0, "version https://git-lfs"sv, "a Git LFS pointer (run `git lfs pull`)"},
    {0, "<!DOCTYPE"sv, "a web page"},
    {0, "<!doctype"sv, "a web page"},
    {0, "<html"sv, "a web page"},
    {0, "<?xml"sv, "an XML file"},
};

bool starts_with(std::span<const std::uint8_t> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

void check_bytes(std::span<const std::uint8_t> bytes, const DecodeLimits& limits) {
  if (bytes.empty()) fail(ErrorKind::content, "no bytes to decode");
  if (static_cast<std::int64_t>(bytes.size()) > limits.max_bytes)
    fail(ErrorKind::content, "{} bytes are more than `max_bytes` ({})", bytes.size(), limits.max_bytes);
}

[[noreturn]] void refuse(std::span<const std::uint8_t> bytes) {
  const std::string_view found = recognise_format(bytes);
  if (!found.empty()) fail(ErrorKind::content, "this is {}, not a JPEG or PNG image", found);
  fail(ErrorKind::content, "not a JPEG or PNG image: its first bytes are {:02x} (hex)",
       fmt::join(bytes.first(std::min<std::size_t>(4, bytes.size())), " "));
}

constexpr std::string_view kJpeg = "\xff\xd8", kPng = "\x89PNG\r\n\x1a\n";

Region whole_pixels(const Box& box) {
  const auto at = [](float edge) { return static_cast<int>(std::lround(edge)); };
  return {at(box.top), at(box.left), at(box.bottom) - at(box.top), at(box.right) - at(box.left)};
}

Region reduced(const Region& region, int by) {
  const auto up = [by](int edge) { return JpegDecoder::reduced(edge, by); };
  const int top = region.top / by, left = region.left / by;
  return {top, left, up(region.top + region.height) - top, up(region.left + region.width) - left};
}

// Converts a box of the full image to pixels of a part of the reduced one.
Box within(const Box& box, int reduction, const Region& part) {
  const auto r = static_cast<float>(reduction);
  const auto at = [&](float edge, int origin, int extent) {
    return std::clamp(edge / r - static_cast<float>(origin), 0.0F, static_cast<float>(extent));
  };
  return {at(box.left, part.left, part.width), at(box.top, part.top, part.height), at(box.right, part.left, part.width),
          at(box.bottom, part.top, part.height)};
}

ImageShape upright(ImageShape stored, int orientation) {
  if (swaps_sides(orientation)) std::swap(stored.height, stored.width);
  return stored;
}

void copy_rows(const PixelRows& from, std::uint8_t* out) {
  const std::size_t bytes = static_cast<std::size_t>(from.shape.width) * static_cast<std::size_t>(from.shape.channels);
  for (std::size_t row = 0; row < static_cast<std::size_t>(from.shape.height); ++row)
    std::memcpy(out + row * bytes, from.data + row * from.stride, bytes);
}

}  // namespace

std::string_view recognise_format(std::span<const std::uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Magic& magic : kMagics) {
    if (text.size() >= magic.offset + magic.bytes.size() && text.substr(magic.offset, magic.bytes.size()) == magic.bytes) {
      return magic.name;
    }
  }
  return {};
}

void check_pixels(std::int64_t height, std::int64_t width, const DecodeLimits& limits) {
  if (height > 0 && width > limits.max_pixels / height)
    fail(ErrorKind::content, "{} x {} pixels are more than `max_pixels` ({})", height, width, limits.max_pixels);
}

ImageShape ImageFile::open(Bytes bytes, int channels, const DecodeLimits& limits, bool exif) {
  check_bytes(bytes, limits);
  orientation_ = 1;
  if (starts_with(bytes, kJpeg)) {
    format_ = Format::jpeg;
    if (!jpeg_) jpeg_.emplace();
    shape_ = jpeg_->read_header(bytes, channels, limits);
    if (exif) orientation_ = jpeg_orientation(bytes);
  } else if (starts_with(bytes, kPng)) {
    format_ = Format::png;
    shape_ = png_.read_header(bytes, channels, limits);
    if (exif) orientation_ = png_orientation(bytes);
  } else {
    refuse(bytes);
  }
  return upright(shape_, orientation_);
}

ImageShape ImageFile::open_labels(Bytes bytes, const DecodeLimits& limits, bool exif, const LabelColours* colours) {
  check_bytes(bytes, limits);
  if (starts_with(bytes, kJpeg))
    fail(ErrorKind::content,
         "the label image is a JPEG, which is lossy and does not keep values: save it as a PNG in the program that made it; a "
         "converted JPEG has wrong values along edges");
  if (!starts_with(bytes, kPng)) refuse(bytes);
  format_ = Format::png;
  shape_ = png_.read_label_header(bytes, limits, colours);
  orientation_ = exif ? png_orientation(bytes) : 1;
  return upright(shape_, orientation_);
}

ImageShape ImageFile::open_pixels(Bytes bytes, const ImageShape& shape, int channels) {
  const bool known = shape.is_static() && shape.is_plain() && (shape.channels == 1 || shape.channels == 3);
  if (!known || shape.bytes() != bytes.size())
    fail(ErrorKind::content, "{} bytes of pixels are not an image of {}", bytes.size(), to_string(shape));
  format_ = Format::pixels;
  orientation_ = 1;
  pixels_ = bytes;
  pixel_channels_ = shape.channels;
  return shape_ = {shape.height, shape.width, channels};
}

void ImageFile::describe(ImageFacts& facts) const {
  const bool is_png = format_ == Format::png;
  facts.format = is_png ? "PNG" : format_ == Format::jpeg ? "JPEG" : "pixels";
  facts.channels = is_png ? png_.stored_channels() : format_ == Format::jpeg ? jpeg_->stored_channels() : pixel_channels_;
  facts.bits = is_png ? static_cast<int>(png_.depth()) : 8;
  facts.orientation = orientation_;
}

bool ImageFile::is_whole(const Excerpt& excerpt) const {
  return excerpt.region.height == shape_.height && excerpt.region.width == shape_.width;
}

int ImageFile::reduction_for(const Excerpt& excerpt) const {
  if (format_ != Format::jpeg || !excerpt.resampled) return 1;
  int reduction = 8;
  while (reduction > 1 && (excerpt.box.bottom - excerpt.box.top < static_cast<float>(excerpt.height * reduction) ||
                           excerpt.box.right - excerpt.box.left < static_cast<float>(excerpt.width * reduction)))
    reduction /= 2;
  return reduction;
}

PixelRows ImageFile::stored_part(const Region& region, int reduction) {
  if (format_ == Format::jpeg) return jpeg_->decode_part(region, reduction, stored_);
  if (format_ == Format::png) return png_.decode_part(region, stored_);
  const auto channels = static_cast<std::size_t>(pixel_channels_), width = static_cast<std::size_t>(shape_.width);
  const std::size_t first = static_cast<std::size_t>(region.top) * width + static_cast<std::size_t>(region.left);
  PixelRows rows{pixels_.data() + first * channels, {region.height, region.width, shape_.channels}, width * channels};
  if (pixel_channels_ == shape_.channels) return rows;
  const std::size_t columns = static_cast<std::size_t>(region.width), to = static_cast<std::size_t>(shape_.channels);
  std::uint8_t* out = stored_.resize(rows.shape.bytes());
  for (std::size_t row = 0; row < static_cast<std::size_t>(region.height); ++row) {
    const std::uint8_t* from = rows.data + row * rows.stride;
    if (to == 1) {
      to_luminance(from, columns, out + row * columns);
    } else {
      for (std::size_t i = 0; i < columns; ++i) std::fill_n(out + (row * columns + i) * to, to, from[i]);
    }
  }
  return {out, rows.shape, columns * to};
}

PixelRows ImageFile::part(const Region& region, int reduction, Box& box) {
  const Box edges{static_cast<float>(region.left), static_cast<float>(region.top), static_cast<float>(region.left + region.width),
                  static_cast<float>(region.top + region.height)};
  const Region stored_region = reduced(whole_pixels(to_stored(edges, orientation_, shape_.height, shape_.width)), reduction);
  const PixelRows stored = stored_part(stored_region, reduction);
  box = within(to_stored(box, orientation_, shape_.height, shape_.width), reduction, stored_region);
  if (orientation_ == 1) return stored;
  box = to_upright(box, orientation_, stored_region.height, stored_region.width);
  Image upright{upright_.resize(stored.shape.bytes()), stored.shape};
  if (swaps_sides(orientation_)) std::swap(upright.shape.height, upright.shape.width);
  turn_upright(stored, orientation_, upright.data);
  return rows_of(upright);
}

void ImageFile::render(const Excerpt& excerpt, ResampleFilter filter, const Image& out) {
  if (format_ == Format::jpeg && orientation_ == 1 && !excerpt.resampled && is_whole(excerpt)) return jpeg_->decode(out.data);
  Box box = excerpt.box;
  const PixelRows rows = part(excerpt.region, reduction_for(excerpt), box);
  if (!excerpt.resampled) return copy_rows(rows, out.data);
  resampler_.resize(rows, box, filter, out.shape, out.data);
}

}  // namespace millrace
