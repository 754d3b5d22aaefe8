// The stream of samples and the weights depend on the file and the seed alone: not on threads, and not on where a run was
// stopped. Over replicas the stream stays, and weights agree as far as sums in another order do.
//
// MILLRACE_IDENTITY=all tries every number of threads with every place to stop.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "fault_runner.h"
#include "weight_formats/safetensors.h"

namespace millrace::test::identity_test {
namespace {

class Identity : public RunTest {
 protected:
  static std::string threads(int count) { return fmt::format("run.threads={}", count); }
};

TEST_F(Identity, ThreadsAndPlacesToStopChangeNothing) {
  const Words set = {"checkpoint.every=1 step", "checkpoint.keep=100"};
  const auto with = [&](int count) {
    Words more = set;
    more.push_back(threads(count));
    return more;
  };
  ASSERT_EQ(run("whole", with(1)).code, 0);
  const LeftByRun whole = left_by(run_in("whole"));
  const bool all = std::getenv("MILLRACE_IDENTITY") != nullptr;
  for (const int count : all ? std::vector<int>{2, 4, 8} : std::vector<int>{8}) {
    const std::string runs = fmt::format("threads{}", count);
    ASSERT_EQ(run(runs, with(count)).code, 0);
    expect_the_same(whole, left_by(run_in(runs)), runs);
  }
  for (const std::uint64_t step : {2, 7}) {  // in the middle of each epoch
    for (const int count : all ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{step == 2 ? 2 : 4}) {
      const std::string runs = fmt::format("step{}threads{}", step, count);
      copy_back_to(step, "whole", runs);
      ASSERT_EQ(run(runs, with(count), {"--resume"}).code, 0);
      expect_the_same(whole, left_by(run_in(runs)), runs);
    }
  }
}

constexpr double kTolerance = 1e-5;  // absolute, of weights below 1; one update is about 1e-2

double largest_difference(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto first = read_safetensors(a.string()).tensors, second = read_safetensors(b.string()).tensors;
  EXPECT_EQ(first.size(), second.size());
  EXPECT_FALSE(first.empty());
  double largest = 0;
  for (std::size_t t = 0; t < std::min(first.size(), second.size()); ++t) {
    EXPECT_EQ(first[t].name, second[t].name);
    EXPECT_EQ(first[t].values.size(), second[t].values.size());
    for (std::size_t i = 0; i < std::min(first[t].values.size(), second[t].values.size()); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(first[t].values[i]) - static_cast<double>(second[t].values[i])));
    }
  }
  return largest;
}

TEST_F(Identity, ReplicasKeepTheStreamAndNearlyTheWeights) {
  const Words set = {"network.use=plain.toml"};
  const Outcome one = run("replicas1", set);
  ASSERT_EQ(one.code, 0) << one.err;
  for (const int replicas : {2, 4}) {
    const std::string runs = fmt::format("replicas{}", replicas);
    const Outcome several = run(runs, set, {"--devices", fmt::format("cpu*{}", replicas)});
    ASSERT_EQ(several.code, 0) << several.err;
    const auto expected = events(one, "epoch"), found = events(several, "epoch");
    ASSERT_EQ(expected.size(), 2U);
    ASSERT_EQ(found.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(expected[i].at("stream_hash"), found[i].at("stream_hash")) << runs;
    const double difference =
        largest_difference(run_in("replicas1") / "weights.safetensors", run_in(runs) / "weights.safetensors");
    EXPECT_LT(difference, kTolerance) << runs;
  }
}

}  // namespace
}  // namespace millrace::test::identity_test
