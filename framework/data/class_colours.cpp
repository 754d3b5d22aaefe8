#include "millrace/util/class_colours.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/error.h"
#include "millrace/util/colour.h"

namespace millrace {
namespace {

// Distributes a number's bits over the highest bits of red, green and blue in turn.
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

}  // namespace

ClassColours class_colours(const std::vector<std::string>& written, std::size_t classes) {
  ClassColours colours = voc_colours();
  if (written.empty()) return colours;
  if (written.size() != classes) {
    fail(ErrorKind::usage, "colours: the network has {} classes, and {} colours are written", classes, written.size());
  }
  for (std::size_t c = 0; c < classes; ++c) {
    const auto colour = parse_colour(written[c], fmt::format("colours[{}]", c));
    std::ranges::copy(colour, colours.begin() + static_cast<std::ptrdiff_t>(3 * c));
  }
  return colours;
}

}  // namespace millrace
