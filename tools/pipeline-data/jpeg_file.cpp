#include "jpeg_file.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
// jpeglib.h needs FILE and size_t before it
#include <jpeglib.h>

#include "millrace/error.h"

namespace millrace {

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
struct Free {
  void operator()(unsigned char* bytes) const { std::free(bytes); }
};

}  // namespace

void write_jpeg(const std::string& path, const std::vector<std::uint8_t>& pixels, int height, int width, int quality) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // compressing into memory only fails for want of memory, which ends the tool
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    // libjpeg takes rows to read as pointers to non-const
    JSAMPROW row = const_cast<std::uint8_t*>(pixels.data()) + std::size_t{3} * info.image_width * info.next_scanline;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const std::unique_ptr<unsigned char, Free> bytes(buffer);

  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "wb"));
  const bool written = file && std::fwrite(bytes.get(), 1, size, file.get()) == size && std::fflush(file.get()) == 0;
  if (!written) fail(ErrorKind::storage, "cannot write '{}': {}", path, std::strerror(errno));
}

}  // namespace millrace
