#include "counts.h"

#include <fmt/format.h>

#include <iterator>

namespace millrace::drawing {

std::string brief_count(double count) {
  if (count < 10'000) return fmt::format("{:.0f}", count);
  constexpr const char* kUnits[] = {"k", "M", "G", "T"};
  std::size_t unit = 0;
  for (count /= 1000; count >= 999.5 && unit + 1 < std::size(kUnits); count /= 1000) ++unit;
  return count < 99.95 ? fmt::format("{:.1f}{}", count, kUnits[unit]) : fmt::format("{:.0f}{}", count, kUnits[unit]);
}

std::string share_text(double share) {
  const double percent = 100 * share;
  return percent < 99.95 ? fmt::format("{:.1f} %", percent) : fmt::format("{:.0f} %", percent);
}

std::string whole_text(double count) {
  std::string text = fmt::format("{:.0f}", count);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

}  // namespace millrace::drawing
