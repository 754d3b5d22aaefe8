#include "jpeg_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "image_bytes.h"
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

}  // namespace millrace
