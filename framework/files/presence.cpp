#include "files/presence.h"

#include <fmt/format.h>

#include <system_error>

#include "millrace/error.h"
#include "millrace/util/text.h"

namespace millrace {

namespace fs = std::filesystem;

std::string why_unreachable(const fs::path& path) {
  std::error_code error, no_link;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::not_found) {
    const fs::path target = fs::read_symlink(path, no_link);
    return no_link ? "" : fmt::format("is a link to '{}', which leads nowhere", line_text(target.string()));
  }
  const bool is_no_name = error == std::errc::filename_too_long || error == std::errc::invalid_argument;
  return type != fs::file_type::none || is_no_name ? "" : fmt::format("cannot be looked at: {}", error.message());
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
