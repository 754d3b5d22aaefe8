// Paths of this machine, and URLs of them: file:///data/my%20photos/1.jpg. Broken links and inaccessible paths do not count as
// absent. Thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

// Empty if a '%' is not followed by two hexadecimal digits. In forms and in listings of S3 '+' means a space.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

// The unescaped path in a URL of scheme "file"; other texts are returned unchanged. Error(usage) for a path that is not absolute,
// and for an invalid escape.
std::string file_url_path(std::string_view url);

// The same of what is written, which lies on this machine: Error(usage), which begins with `what`, for URLs of other schemes.
std::string local_path(std::string_view what, std::string_view path);

// Why nothing can be read under a name that is there: "is a link to '../val', which leads nowhere", "cannot be looked at:
// Permission denied". "": something can be, or nothing has this name.
std::string why_unreachable(const std::filesystem::path& path);

bool is_absent(const std::filesystem::path& path);         // nothing has this name; true for URLs of other schemes
bool is_readable_file(const std::filesystem::path& path);  // Error(usage) with why_unreachable(), if that is not ""

}  // namespace millrace
