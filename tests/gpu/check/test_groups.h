// Which tests run together in one process, in which order, on which cores. Pure.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace millrace::gpu {

struct TestGroup {
  std::filesystem::path program;
  std::vector<std::string> tests;
  bool alone = false;  // measures time or memory of the device: nothing else may run
};

// The names in what a program prints for --gtest_list_tests: "Suite.Name".
std::vector<std::string> listed_tests(const std::string& output);

// GoogleTest's patterns: "A.*:B.*-A.Slow"; * stands for anything, ? for one character.
bool matches(const std::string& filter, const std::string& test);

// Is it a comparison of an operator, or of a training step of a network, with the CPU backend?
bool compares_with_cpu(const std::string& test);

// Groups of at most a dozen, so that a crash costs few tests a second process. What is worth most comes first: float32, then
// whole networks, each in a group of its own because it takes long, then bf16, then TF32.
std::vector<TestGroup> make_groups(const std::filesystem::path& program, std::vector<std::string> tests);

// A program's name and a test's, as the journal has them.
using TestName = std::pair<std::string, std::string>;
void leave_out(const std::set<TestName>& done, std::vector<TestGroup>& groups);

// `cores` divided among `processes`, each with as many as the others or one more. Fewer processes where there are fewer cores.
std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, int processes);

}  // namespace millrace::gpu
