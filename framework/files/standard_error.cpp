#include "millrace/util/standard_error.h"

#include <cstdio>
#include <string>

#include "base/secrets.h"

namespace millrace {

void write_to_stderr(std::string_view text) noexcept {
  std::string masked;
  if (text.find("://") != std::string_view::npos) {
    try {
      text = masked = without_secrets(std::string(text));
    } catch (...) {
      text = "(there is no memory for a message)\n";
    }
  }
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  std::clearerr(stderr);  // the next text may find room again
}

}  // namespace millrace
