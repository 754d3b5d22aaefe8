#include "test_groups.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace millrace::gpu {
namespace {

constexpr std::size_t kMostTogether = 12;

bool has(const std::string& test, const char* word) { return test.find(word) != std::string::npos; }

bool whole_network(const std::string& test) { return has(test, "GpuNetworks."); }

// The device's clock, its free memory, or two of its replicas at once.
bool needs_the_device_for_itself(const std::string& test) { return has(test, "GpuReplica.") || has(test, "GpuCommunicator."); }

bool any_matches(const std::string& patterns, const std::string& test) {
  std::istringstream stream(patterns);
  for (std::string pattern; std::getline(stream, pattern, ':');) {
    if (fnmatch(pattern.c_str(), test.c_str(), 0) == 0) return true;
  }
  return false;
}

// Smaller comes first.
int rank(const std::string& test) {
  if (whole_network(test)) return 2;
  if (has(test, "Tf32")) return 4;
  if (has(test, "Bf16")) return 3;
  return has(test, "GpuOperators.") ? 1 : 0;
}

std::size_t most_together(const std::string& test) { return whole_network(test) ? 1 : kMostTogether; }

}  // namespace

std::vector<std::string> listed_tests(const std::string& output) {
  std::vector<std::string> tests;
  std::istringstream stream(output);
  std::string suite;
  for (std::string line; std::getline(stream, line);) {
    std::string word = line.substr(0, line.find("  # "));
    while (!word.empty() && word.back() == ' ') word.pop_back();
    if (!line.starts_with("  ")) {
      suite = word.ends_with(".") && word.find(' ') == std::string::npos ? word : "";
    } else if (!suite.empty()) {
      tests.push_back(suite + word.substr(2));
    }
  }
  return tests;
}

bool matches(const std::string& filter, const std::string& test) {
  const std::size_t minus = filter.find('-');
  const std::string wanted = filter.substr(0, minus), unwanted = minus == std::string::npos ? "" : filter.substr(minus + 1);
  return (wanted.empty() || any_matches(wanted, test)) && !any_matches(unwanted, test);
}

bool compares_with_cpu(const std::string& test) {
  return has(test, "GpuComparison.") || has(test, "GpuOperators.") || has(test, "GpuNetworks.TrainAsOnTheCpu");
}

std::vector<TestGroup> make_groups(const std::filesystem::path& program, std::vector<std::string> tests) {
  const auto order = [](const std::string& test) { return std::pair(needs_the_device_for_itself(test), rank(test)); };
  std::stable_sort(tests.begin(), tests.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  std::vector<TestGroup> groups;
  for (const std::string& test : tests) {
    const auto joins = [&](const TestGroup& group) {
      return order(group.tests.front()) == order(test) && group.tests.size() < most_together(test);
    };
    if (groups.empty() || !joins(groups.back())) groups.push_back({program, {}, needs_the_device_for_itself(test)});
    groups.back().tests.push_back(test);
  }
  return groups;
}

void leave_out(const std::set<TestName>& done, std::vector<TestGroup>& groups) {
  for (TestGroup& group : groups) {
    const std::string program = group.program.filename().string();
    std::erase_if(group.tests, [&](const std::string& test) { return done.contains({program, test}); });
  }
  std::erase_if(groups, [](const TestGroup& group) { return group.tests.empty(); });
}

std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, int processes) {
  const int count = std::clamp(processes, 1, std::max(1, static_cast<int>(cores.size())));
  std::vector<std::vector<int>> shares(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < cores.size(); ++i) shares[i * shares.size() / cores.size()].push_back(cores[i]);
  return shares;
}

}  // namespace millrace::gpu
