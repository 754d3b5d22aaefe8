#include "millrace/observer.h"

#include <fmt/format.h>

#include <cmath>

namespace millrace {

const char* to_string(RequestKind kind) {
  static constexpr const char* kNames[] = {"stop", "save", "validate", "rate_factor", "checkpoint"};
  return kNames[static_cast<int>(kind)];
}

const char* to_string(Delivery delivery) { return delivery == Delivery::all ? "all" : "latest"; }

std::string duration_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace millrace
