// For builds without libpng.
#include "millrace/error.h"
#include "rate_picture.h"

namespace millrace {

bool writes_png() { return false; }

std::string png_of(const Picture&) { fail(ErrorKind::run, "this build cannot make PNG files: it was made without libpng"); }

}  // namespace millrace
