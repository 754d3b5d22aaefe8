// A program that is refused memory, a thread, a file or a map at any moment from its start to its third step ends with a
// message, or continues normally. Refusals are never mistaken for other causes, such as bad data.
//
// By default some requests of each kind are refused, spread over all; MILLRACE_RESOURCES=200 refuses 200 of each, =all every one
// in turn. The failure prints the command to repeat it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "pipelines/command.h"

namespace millrace::test {
namespace {

constexpr long kByDefault = 6;
constexpr double kLimit = 120;  // seconds, for a hanging program

class ResourceFaults : public testing::TestWithParam<const char*> {
 protected:
  // Three steps and a validation, with a checkpoint.
  std::vector<std::string> words(long at) const {
    std::vector<std::string> all = {"/usr/bin/env", fmt::format("LD_PRELOAD={}", FAULT_RESOURCES),
                                    fmt::format("FAULT_RESOURCES={}", GetParam()), fmt::format("FAULT_RESOURCES_AT={}", at),
                                    "FAULT_RESOURCES_COUNT=" + (folder_ / "count")};
    for (const std::string& word : {tool("pipeline-run"), pipeline("quickstart.toml"), std::string("--quiet")})
      all.push_back(word);
    for (const std::string& key :
         {"data.path=" + shapes(), "run.folder=" + (folder_ / "runs"), std::string("run.epochs=1"), std::string("run.threads=2"),
          std::string("run.precision=fp32"), std::string("train.batch.size=40"), std::string("train.read.limit=120"),
          std::string("validate.read.limit=20"), std::string("checkpoint.every=epoch")}) {
      all.insert(all.end(), {"--set", key});
    }
    return all;
  }

  Outcome run(long at) const {
    std::filesystem::remove_all(folder_ / "runs");
    Interruption limit;
    limit.limit = kLimit;
    return run_command(words(at), limit);
  }
  std::string weights() const { return read_file(find_file(folder_ / "runs", "weights.safetensors")); }

  // From 1 to `count`: the same ones each time, different for each kind.
  static std::set<long> chosen(long count) {
    const char* const wanted = std::getenv("MILLRACE_RESOURCES");  // NOLINT(concurrency-mt-unsafe): one thread
    const bool all = wanted != nullptr && std::string(wanted) == "all";
    const long most = all ? count : wanted != nullptr ? std::strtol(wanted, nullptr, 10) : kByDefault;
    std::set<long> numbers;
    for (long i = 0; i < std::min(most, count); ++i) numbers.insert(1 + i * count / std::min(most, count));
    return numbers;
  }

  // Empty if it ended well.
  std::string fault_of(const Outcome& outcome, const std::string& expected) const {
    if (outcome.killed) return "it hangs";
    if (outcome.code == 0) return weights() == expected ? "" : "it ended well, with other weights";
    if (outcome.code < 0 || outcome.code > 4) return fmt::format("it ended with code {}", outcome.code);
    return outcome.err.empty() ? "it said nothing" : "";
  }

  const TemporaryFolder folder_;
};

TEST_P(ResourceFaults, EndWithAMessageOrChangeNothing) {
  const Outcome whole = succeeded(run(0));
  const std::string expected = weights();
  ASSERT_FALSE(expected.empty());
  const long count = std::strtol(read_file(folder_ / "count").c_str(), nullptr, 10);
  ASSERT_GT(count, 0) << "nothing was counted";
  for (const long at : chosen(count)) {
    const Outcome outcome = run(at);
    if (const std::string fault = fault_of(outcome, expected); !fault.empty()) {
      ADD_FAILURE() << GetParam() << " " << at << " of " << count << ": " << fault << "\n"
                    << outcome.err << fmt::format("{}", fmt::join(words(at), " "));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, ResourceFaults, testing::Values("memory", "thread", "file", "map"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace millrace::test
