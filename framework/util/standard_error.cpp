#include "millrace/util/standard_error.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "util/secrets.h"

namespace millrace {

std::size_t terminal_width() noexcept {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

std::string with_indented_lines(std::string_view text) {
  std::string indented;
  for (const char c : text) {
    indented += c;
    if (c == '\n') indented += "  ";
  }
  return indented;
}

void write_to_stderr(std::string_view text) noexcept {
  std::string masked;
  if (text.find("://") != std::string_view::npos) {
    try {
      text = masked = without_secrets(std::string(text));
    } catch (...) {
      text = "(out of memory for a message)\n";
    }
  }
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  std::clearerr(stderr);  // the next text may succeed
}

}  // namespace millrace
