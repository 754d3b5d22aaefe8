#include "environment.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "millrace/error.h"

namespace millrace::web {

std::string process_environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
  return value ? value : "";
}

double number(const Environment& environment, const char* name, double otherwise, double low, double high, const char* expected) {
  const std::string text = environment(name);
  if (text.empty()) return otherwise;
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !(value >= low && value <= high)) {
    fail(ErrorKind::usage, "{} = '{}': expected {} from {} to {}", name, text, expected, low, high);
  }
  return value;
}

Milliseconds seconds(const Environment& environment, const char* name, Milliseconds otherwise) {
  const double value = number(environment, name, static_cast<double>(otherwise.count()) / 1000, 0.1, 86'400, "seconds");
  return Milliseconds(std::llround(value * 1000));
}

}  // namespace millrace::web
