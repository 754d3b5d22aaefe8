// Patterns for names in parameters: "layer1.*.bias".
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

// Whether the pattern matches the whole name. "*" matches any text, "?" any character. Uses no memory; the time is at most the
// product of both lengths.
bool matches(std::string_view pattern, std::string_view name);

// The parameter `leave_out` of sources: patterns of paths to skip, and which of them never matched.
class LeavesOut {
 public:
  explicit LeavesOut(std::vector<std::string> patterns) : patterns_(std::move(patterns)), fits_(patterns_.size()) {}
  bool operator()(std::string_view path);
  // For RunServices::warn(): "leave_out: 'draft' fits nothing in 'photos'"; "" if each pattern matched.
  std::string unused(std::string_view where) const;

 private:
  std::vector<std::string> patterns_;
  std::vector<char> fits_;
};

}  // namespace millrace
