// Parses header fields of replies.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::web {

// "bytes 0-99/1234", or "bytes */1234" for a range outside the object.
struct ContentRange {
  bool inside = false;
  std::uint64_t first = 0, last = 0;  // if inside
  std::uint64_t total = 0;
};
std::optional<ContentRange> parse_content_range(std::string_view value);

std::optional<std::uint64_t> parse_number(std::string_view text);  // decimal digits only
std::optional<std::time_t> parse_date(const std::string& text);    // "Fri, 27 Nov 2026 10:00:59 GMT"
std::string_view unquoted(std::string_view etag);

// True if a retry after a pause may succeed: 408, 425, 429 and most of 5xx.
bool is_passing(int status);

}  // namespace millrace::web
