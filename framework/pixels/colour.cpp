#include "millrace/util/colour.h"

#include <charconv>

#include "millrace/error.h"

namespace millrace {

std::array<std::uint8_t, 3> parse_colour(std::string_view text, std::string_view key) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  if (text.size() == 7 && text[0] == '#') {
    const auto [stopped, error] = std::from_chars(text.data() + 1, end, number, 16);
    if (error == std::errc() && stopped == end) {
      return {static_cast<std::uint8_t>(number >> 16), static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)};
    }
  }
  fail(ErrorKind::usage, "{}: '{}' is not a colour; write red, green and blue as \"#804080\"", key, text);
}

}  // namespace millrace
