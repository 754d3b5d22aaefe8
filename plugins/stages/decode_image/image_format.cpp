#include "image_format.h"

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

}  // namespace millrace
