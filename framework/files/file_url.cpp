#include "millrace/util/file_url.h"

#include <sys/stat.h>

#include <cerrno>

#include "millrace/error.h"
#include "millrace/storage.h"

namespace millrace {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::string file_url_path(std::string_view url) {
  constexpr std::string_view kScheme = "file://";
  if (!url.starts_with(kScheme)) return std::string(url);
  const std::string_view path = url.substr(kScheme.size());
  if (!path.starts_with('/'))
    fail(ErrorKind::usage, "'{}': expected an absolute path after '{}', as in 'file:///data/train'", url, kScheme);
  auto decoded = percent_decode(path);
  if (!decoded || decoded->find('\0') != std::string::npos) {
    fail(ErrorKind::usage,
         "'{}': in a URL, '%' and two hexadecimal digits stand for a character, %25 for '%'; a path without 'file://' has none",
         url);
  }
  return *std::move(decoded);
}

bool has_this_name(std::string_view url) {
  struct stat status {};
  return url_scheme(url) == "file" &&
         (::lstat(file_url_path(url).c_str(), &status) == 0 || (errno != ENOENT && errno != ENOTDIR));
}

}  // namespace millrace
