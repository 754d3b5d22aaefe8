#include "millrace/util/paths.h"

#include <charconv>

#include "millrace/error.h"
#include "millrace/util/text.h"

namespace millrace {

namespace fs = std::filesystem;

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    unsigned byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const char* const end = digits.data() + digits.size();
    if (digits.size() != 2 || std::from_chars(digits.data(), end, byte, 16).ptr != end) return std::nullopt;
    decoded += static_cast<char>(byte);
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
         "'{}': in a URL, '%' and two hexadecimal digits stand for a character, %25 for '%'; a path without 'file://' needs no "
         "such escapes",
         url);
  }
  return *std::move(decoded);
}

std::string local_path(std::string_view what, std::string_view path) {
  std::string local = file_url_path(path);
  if (local.find("://") == local.npos || path.starts_with("file://")) return local;
  fail(ErrorKind::usage, "{}: '{}' is a URL, but files are written into a folder of this machine: name one", what, local);
}

std::string why_unreachable(const fs::path& path) {
  std::error_code error, no_link;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::not_found) {
    const fs::path target = fs::read_symlink(path, no_link);
    return no_link ? "" : fmt::format("is a link to '{}', which does not exist", line_text(target.string()));
  }
  const bool is_no_name = error == std::errc::filename_too_long || error == std::errc::invalid_argument;
  return type != fs::file_type::none || is_no_name ? "" : fmt::format("cannot be accessed: {}", error.message());
}

bool is_absent(const fs::path& path) {
  std::error_code ignored;
  return !fs::exists(path, ignored) && why_unreachable(path).empty();
}

bool is_readable_file(const fs::path& path) {
  if (const std::string why = why_unreachable(path); !why.empty())
    fail(ErrorKind::usage, "'{}' {}", line_text(path.string()), why);
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace millrace
