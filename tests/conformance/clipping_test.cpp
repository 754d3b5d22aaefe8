// Stage `clip_gradients` over replicas of each backend, whose layouts pad parameters: its gradients compared with a plain
// computation in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "millrace/batch.h"
#include "replicas.h"
#include "testkit/harness.h"

namespace millrace::conformance {
namespace {

// Channels that every layout pads, and more parameters than one kernel handles.
constexpr const char* kNetwork =
    "input = { channels = 3, height = 6, width = 7 }\n"
    "layers = [\n"
    "{ name = \"first\", op = \"conv\", out = 21, kernel = 3, padding = 1 },\n"
    "{ name = \"body#\", block = \"unit\", repeat = 9 },\n"
    "{ op = \"global_average_pool\" },\n"
    "{ op = \"linear\", out = 10 },\n"
    "]\n"
    "[block.unit]\n"
    "layers = [ { op = \"conv\", out = 21, kernel = 3, padding = 1 }, { op = \"batch_norm\" }, { op = \"relu\" } ]\n";

using Gradients = std::vector<std::vector<float>>;  // by parameter; may be empty

Gradients gradients_of(const Network& network, Replica& replica) {
  Gradients all;
  for (std::size_t p = 0; p < network.parameters.size(); ++p) {
    all.push_back(network.parameters[p].trainable ? replica.read(kGradient, static_cast<int>(p)) : std::vector<float>());
  }
  return all;
}

double norm_of(const std::vector<float>& values) {
  double total = 0;
  for (const float value : values) total += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(total);
}

class Clipping : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (with_simulation().backends().find(GetParam()) == nullptr) GTEST_SKIP() << "not built: " << GetParam();
    if (registry().stages().find("clip_gradients") == nullptr) GTEST_SKIP() << "not built: clip_gradients";
    network_ = testkit::network_from_text(kNetwork, with_simulation());
    made_ = compile(GetParam(), *network_, Precision::fp32, false, {testkit::cross_entropy()});
  }

  // Gradients before and after stages with these tables have seen all buckets, one stage after the other.
  std::pair<Gradients, Gradients> clipped(const std::function<std::vector<Value>(const Gradients& before)>& tables) {
    results(*network_, *made_.replica, batch_of(*network_));
    const Gradients before = gradients_of(*network_, *made_.replica);
    StepContext context;
    context.graph = "train";
    context.network = network_.get();
    context.replicas = {made_.replica.get()};
    context.devices = {made_.device.get()};
    context.replica = 0;
    std::vector<Packet> packets;
    const std::vector<Bucket>& buckets = made_.replica->buckets();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      Ref<GradientBucket> bucket = make_ref<GradientBucket>();
      bucket->bucket = static_cast<int>(b);
      bucket->buckets = static_cast<int>(buckets.size());
      bucket->data = buckets[b].gradients;
      bucket->elements = buckets[b].elements;
      packets.push_back(testkit::packet(std::move(bucket), 0));
    }
    std::vector<std::unique_ptr<testkit::Harness>> stages;  // their memory holds the others' factors
    for (const Value& table : tables(before)) {
      stages.push_back(std::make_unique<testkit::Harness>(*registry().stages().find("clip_gradients"), table, context));
      stages.back()->stage().open();
      for (Packet& packet : packets) stages.back()->feed(std::move(packet));
      packets = stages.back()->take();
    }
    for (const Packet& packet : packets) {
      const Ref<Event>& ready = static_cast<const GradientBucket&>(*packet.payload).ready;
      if (ready) ready->wait();
    }
    return {before, gradients_of(*network_, *made_.replica)};
  }
  std::pair<Gradients, Gradients> clipped(const Value& table) {
    return clipped([&](const Gradients&) { return std::vector<Value>{table}; });
  }

  std::shared_ptr<const Network> network_;
  Made made_;
};

TEST_P(Clipping, ByNormBoundsEachParameterByItself) {
  const double limit = 0.05;
  const auto [before, after] = clipped(testkit::table({{"norm", Value(limit)}}));
  std::size_t scaled = 0, kept = 0;
  for (std::size_t p = 0; p < before.size(); ++p) {
    if (before[p].empty()) continue;
    const double norm = norm_of(before[p]), factor = std::min(1.0, limit / norm);
    (factor < 1 ? scaled : kept) += 1;
    for (std::size_t i = 0; i < before[p].size(); ++i) {
      const double expected = factor * static_cast<double>(before[p][i]);
      ASSERT_NEAR(after[p][i], expected, 2e-7 * std::abs(expected)) << network_->parameters[p].name << ", " << i;
    }
  }
  EXPECT_GT(scaled, 2U);
  EXPECT_GT(kept, 2U);
}

TEST_P(Clipping, ByValueBoundsEachGradient) {
  const double limit = 1e-3;
  const auto [before, after] = clipped(testkit::table({{"value", Value(limit)}}));
  for (std::size_t p = 0; p < before.size(); ++p) {
    for (std::size_t i = 0; i < before[p].size(); ++i) {
      const float bound = static_cast<float>(limit);
      ASSERT_EQ(after[p][i], std::clamp(before[p][i], -bound, bound)) << network_->parameters[p].name << ", " << i;
    }
  }
}

// The last stage applies the factors of the others: each norm times their factor is then its limit.
TEST_P(Clipping, ByTheNormOfAllOneStageTakesUpWhereTheOtherEnds) {
  for (const auto& [first, second, factor] : {std::tuple{0.125, 0.5, 0.125}, {0.5, 0.125, 0.125}, {0.5, 2.0, 0.5}}) {
    const double limit = 1e-6;
    const auto [before, after] = clipped([&, first = first, second = second](const Gradients& gradients) {
      double total = 0;
      for (const std::vector<float>& each : gradients) total += std::pow(norm_of(each), 2);
      return std::vector<Value>{testkit::table({{"global_norm", Value(first * std::sqrt(total))}}),
                                testkit::table({{"global_norm", Value(second * std::sqrt(total))}}),
                                testkit::table({{"norm", Value(limit)}})};
    });
    for (std::size_t p = 0; p < before.size(); ++p) {
      if (norm_of(before[p]) * factor < limit) continue;
      EXPECT_NEAR(norm_of(after[p]) * factor, limit, 1e-5 * limit) << network_->parameters[p].name << ", " << first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Clipping, testing::Values("cpu", "simulated"),
                         [](const testing::TestParamInfo<const char*>& of) { return std::string(of.param); });

}  // namespace
}  // namespace millrace::conformance
