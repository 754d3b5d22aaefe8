// jpeglib.h needs FILE and size_t before it
#include "image_bytes.h"

#include <jpeglib.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "millrace/error.h"

namespace millrace {

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

void write_jpeg(const std::string& path, const std::vector<std::uint8_t>& pixels, int height, int width, int quality) {
  // An Image points to pixels that may be changed; jpeg_bytes() only reads them.
  const std::string bytes = jpeg_bytes({const_cast<std::uint8_t*>(pixels.data()), {height, width, 3}}, quality);
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "wb"));
  const bool written =
      file && std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size() && std::fflush(file.get()) == 0;
  if (!written) fail(ErrorKind::storage, "cannot write '{}': {}", path, std::strerror(errno));
}

std::string jpeg_bytes(const ImageView& image, int quality, const std::string& comment) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // compressing into memory only fails if memory is short, which ends the tool
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_height = static_cast<JDIMENSION>(image.shape.height);
  info.image_width = static_cast<JDIMENSION>(image.shape.width);
  info.input_components = image.shape.channels;
  info.in_color_space = image.shape.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  info.optimize_coding = TRUE;  // smaller by a few per cent, and written once but read often
  jpeg_start_compress(&info, TRUE);
  const auto* const text = reinterpret_cast<const JOCTET*>(comment.data());
  if (!comment.empty()) jpeg_write_marker(&info, JPEG_COM, text, static_cast<unsigned>(comment.size()));
  const std::size_t stride = static_cast<std::size_t>(image.shape.width) * static_cast<std::size_t>(image.shape.channels);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(image.data + stride * info.next_scanline);  // libjpeg only reads it
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string bytes(reinterpret_cast<const char*>(buffer), size);
  jpeg_destroy_compress(&info);
  std::free(buffer);
  return bytes;
}

std::string_view image_extension(const ByteBuffer& bytes) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (start.starts_with("\xff\xd8")) return "jpg";
  return start.starts_with("\x89PNG\r\n\x1a\n") ? "png" : "";
}

}  // namespace millrace
