#include "class_colours.h"

#include <charconv>
#include <string_view>

#include "millrace/error.h"

namespace millrace {
namespace {

// The bits of a number are dealt to the highest bits of red, green and blue in turns.
ClassColours voc_colours() {
  ClassColours colours{};
  for (unsigned number = 0; number < 256; ++number) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::uint8_t& channel = colours[3 * number + bit % 3];
      channel = static_cast<std::uint8_t>(channel | (number >> bit & 1) << (7 - bit / 3));
    }
  }
  return colours;
}

std::uint32_t number_of(const std::string& text) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  if (text.size() == 7 && text[0] == '#') {
    const auto [stopped, error] = std::from_chars(text.data() + 1, end, number, 16);
    if (error == std::errc() && stopped == end) return number;
  }
  fail(ErrorKind::usage, "colours: '{}' is no colour; write red, green and blue as \"#804080\"", text);
}

}  // namespace

ClassColours class_colours(const std::vector<std::string>& written, std::size_t classes) {
  ClassColours colours = voc_colours();
  if (written.empty()) return colours;
  if (written.size() != classes) {
    fail(ErrorKind::usage, "colours: the network has {} classes, and {} colours are written", classes, written.size());
  }
  for (std::size_t c = 0; c < classes; ++c) {
    const std::uint32_t number = number_of(written[c]);
    for (std::size_t channel = 0; channel < 3; ++channel)
      colours[3 * c + channel] = static_cast<std::uint8_t>(number >> (16 - 8 * channel));
  }
  return colours;
}

}  // namespace millrace
