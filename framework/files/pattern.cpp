#include "millrace/util/pattern.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/util/text.h"

namespace millrace {

bool matches(std::string_view pattern, std::string_view name) {
  // After a mismatch, the last star consumes one character more.
  std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool LeavesOut::operator()(std::string_view path) {
  bool leaves_out = false;
  for (std::size_t i = 0; i < patterns_.size(); ++i) {  // check all of them, even after a match
    if (!matches(patterns_[i], path)) continue;
    fits_[i] = 1;
    leaves_out = true;
  }
  return leaves_out;
}

std::string LeavesOut::unused(std::string_view where) const {
  const auto none = std::ranges::find(fits_, 0);
  if (none == fits_.end()) return {};
  return fmt::format("leave_out: '{}' matches nothing in '{}': patterns match paths below it, and * matches any text",
                     line_text(patterns_[static_cast<std::size_t>(none - fits_.begin())]), line_text(where));
}

}  // namespace millrace
