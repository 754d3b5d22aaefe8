// Dropout on each backend: no effect in inference, and in training the same draws for a sample in any place.
#include <gtest/gtest.h>

#include "replicas.h"

namespace millrace::conformance {
namespace {

constexpr const char* kDropping[] = {
    "op = \"dropout\"",
    "op = \"dropout\", drops = \"channels\"",
    "op = \"dropout\", drops = \"samples\"",
    "op = \"stochastic_depth\", probability = 0.5",
};

std::shared_ptr<const Network> network_with(const std::string& layer) {
  return testkit::network_from_text(fmt::format(R"(
input = {{ channels = 3, height = 6, width = 5 }}
layers = [ {{ op = "conv", out = 20, kernel = 3 }}, {{ {} }}, {{ name = "fc", op = "linear", out = 5 }} ]
)",
                                                layer),
                                    with_simulation());
}

std::vector<float> logits_of_inference(Replica& replica, const Ref<Batch>& batch) {
  StepSums sums;
  const View plain;
  replica.infer(batch, 0, kBatch, std::span(&plain, 1), nullptr, sums);
  return replica.logits();
}

// The logits of slots [begin, begin + count) of the batch.
std::vector<float> logits_of_training(Replica& replica, const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count) {
  replica.ingest(batch, begin, count);
  replica.forward(3);
  return replica.logits();
}

class Dropping : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  void SetUp() override {
    if (with_simulation().backends().find(backend_) == nullptr) GTEST_SKIP() << "not built: " << backend_;
    made_ = compile(backend_, *network_, Precision::fp32);
  }

  const char* const backend_ = std::get<0>(GetParam());
  const std::shared_ptr<const Network> network_ = network_with(std::get<1>(GetParam()));
  const Ref<Batch> batch_ = batch_of(*network_);
  Made made_;
};

TEST_P(Dropping, IsNothingInInference) {
  const auto without = network_with("op = \"scale\"");
  const std::vector<float> expected = logits_of_inference(*compile(backend_, *without, Precision::fp32).replica, batch_);
  EXPECT_EQ(logits_of_inference(*made_.replica, batch_), expected);
  EXPECT_GT(difference(logits_of_training(*made_.replica, batch_, 0, kBatch), expected), 0.1);
}

TEST_P(Dropping, DrawsTheSameForASampleInAnyShareOfTheBatch) {
  const std::vector<float> all = logits_of_training(*made_.replica, batch_, 0, kBatch);
  const std::vector<float> rest = logits_of_training(*made_.replica, batch_, 2, kBatch - 2);
  EXPECT_LT(difference(rest, {all.begin() + 2 * testkit::kExampleClasses, all.end()}), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Backends, Dropping, testing::Combine(testing::Values("cpu", "simulated"), testing::ValuesIn(kDropping)));

}  // namespace
}  // namespace millrace::conformance
