#include "millrace/standard_error.h"

#include <cstdio>

namespace millrace {

void write_to_stderr(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  std::clearerr(stderr);  // the next text may find room again
}

}  // namespace millrace
