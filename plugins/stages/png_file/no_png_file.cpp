// For builds without libpng.
#include "millrace/error.h"
#include "png_file.h"

namespace millrace {

std::string png_bytes(const ImageView&, const std::uint8_t*, PngEffort) {
  fail(ErrorKind::run, "this build cannot make PNG files: it was made without libpng");
}

bool writes_png() { return false; }

}  // namespace millrace
