#include "test_lines.h"

#include <array>
#include <cstdlib>
#include <utility>

namespace millrace::gpu {
namespace {

constexpr std::size_t kMostText = 2000;  // bytes of a test's output that are kept
constexpr std::string_view kBegins = "[ RUN      ] ", kRecords = "[ RECORDS  ] ";
constexpr std::array<std::pair<std::string_view, const char*>, 3> kEnds = {{
    {"[       OK ] ", "passed"},
    {"[  FAILED  ] ", "failed"},
    {"[  SKIPPED ] ", "skipped"},
}};

// What stands behind `marker`, wherever it stands: a test may have printed something before it on the same line.
std::optional<std::string> behind(const std::string& line, std::string_view marker) {
  const std::size_t at = line.find(marker);
  if (at == std::string::npos) return std::nullopt;
  return line.substr(at + marker.size());
}

// "... (12 ms)"
double seconds_in(const std::string& text) {
  const std::size_t at = text.rfind('(');
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + 1) / 1000;
}

}  // namespace

std::optional<FinishedTest> TestLines::read(const std::string& line) {
  if (const auto test = behind(line, kBegins)) {
    running_ = {};
    running_.test = *test;
    return std::nullopt;
  }
  if (running_.test.empty()) return std::nullopt;  // the summary repeats what failed
  for (const auto& [marker, result] : kEnds) {
    const auto text = behind(line, marker);
    if (!text || !text->starts_with(running_.test)) continue;
    running_.result = result;
    running_.seconds = seconds_in(*text);
    return std::exchange(running_, {});
  }
  if (const auto records = behind(line, kRecords)) {
    auto parsed = nlohmann::ordered_json::parse(*records, nullptr, false);
    if (parsed.is_object()) running_.records = std::move(parsed);
  } else if (running_.text.size() < kMostText) {
    running_.text += line.substr(0, kMostText - running_.text.size()) + "\n";
  }
  return std::nullopt;
}

}  // namespace millrace::gpu
