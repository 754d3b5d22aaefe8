// URLs of files, as file:///data/my%20photos/1.jpg. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace {

// None when a '%' is not followed by two hexadecimal digits. In forms and in listings of S3 '+' stands for a space.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

// The path in a URL of scheme "file", without escapes; any other text as it is. Error(usage) for a path that is not absolute, and
// for a '%' that begins no escape.
std::string file_url_path(std::string_view url);

// Whether a path or URL of this machine has something under its name, even a link that leads nowhere or a file that may not be
// read: what failed there was not absent. False for other schemes.
bool has_this_name(std::string_view url);

}  // namespace millrace
