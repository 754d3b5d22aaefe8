// Requirements of every loss on every backend, checked on its own examples: correct gradients, equal results on all of them, and
// targets that follow their images.
#include <gtest/gtest.h>

#include <cmath>

#include "millrace/error.h"
#include "millrace/loss.h"
#include "replicas.h"

namespace millrace::conformance {
namespace {

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const auto& [name, type] : with_simulation().losses()) names.push_back(name);
  return names;
}

using Data = LossData;

std::shared_ptr<const Network> network_for(const Shape& output, bool wide) {
  return conformance::network_for(with_simulation(), output, wide);
}

// From images of 4 x 6 to maps of twice the size: every output sees a part of the image.
std::shared_ptr<const Network> enlarging_network(int channels) {
  return testkit::network_from_text(
      fmt::format("input = {{ channels = 3, height = 4, width = 6, mean = [0.4, 0.5, 0.6], deviation = [0.2, 0.25, 0.3] }}\n"
                  "layers = [ {{ op = \"conv\", out = 6, kernel = 3, padding = 1 }}, {{ op = \"gelu\" }},\n"
                  "           {{ op = \"conv\", out = {}, kernel = [5, 7], padding = [4, 6] }} ]\n",
                  channels),
      with_simulation());
}

// Output, gradients and sums of one training pass.
std::vector<float> results(const Network& network, Replica& replica, const Ref<Batch>& batch,
                           const std::shared_ptr<const Loss>& loss) {
  StepSums sums;
  replica.ingest(batch, 0, batch->count);
  replica.forward(3);
  replica.loss(loss, 3, sums);
  replica.backward([](int, Ref<Event>) {});
  replica.finish();
  std::vector<float> all = replica.logits();
  for (std::size_t p = 0; p < network.parameters.size(); ++p) {
    const std::vector<float> gradient = replica.read(kGradient, static_cast<int>(p));
    all.insert(all.end(), gradient.begin(), gradient.end());
  }
  for (int sum = 0; sum < 2; ++sum) all.push_back(static_cast<float>(sums.at(static_cast<std::size_t>(sum))));
  return all;
}

class EveryLoss : public testing::TestWithParam<std::string> {
 protected:
  // Calls use(network, loss) for each example.
  template <class Use>
  void for_each_example(const Use& use) const {
    const LossType& type = *with_simulation().losses().find(GetParam());
    for (const LossExample& example : type.examples) {
      for (const bool wide : {false, true}) {
        SCOPED_TRACE(fmt::format("{}{}", example.table, wide ? ", wide" : ""));
        use(*network_for(example.output, wide), testkit::example_loss(type, example));
      }
    }
  }
};

TEST_P(EveryLoss, DescribesItself) { expect_passes("loss", "description", GetParam()); }
TEST_P(EveryLoss, AcceptsItsOwnDefaults) { expect_passes("loss", "defaults", GetParam()); }
TEST_P(EveryLoss, NamesAnUnknownKey) { expect_passes("loss", "refusals", GetParam()); }
TEST_P(EveryLoss, HasItsGradientsOnEveryBackend) { expect_passes("loss", "gradients", GetParam()); }
TEST_P(EveryLoss, CountsItsWeightAsTheDivisorDoes) { expect_passes("loss", "weight", GetParam()); }

TEST_P(EveryLoss, ComputesTheSameOnAllBackends) {
  for_each_example([&](const Network& network, const std::shared_ptr<const Loss>& loss) {
    const Data data(network, *loss);
    const auto on = [&](const char* backend, Precision precision) {
      return results(network, *compile(backend, network, precision, false, {loss}).replica, data.batch, loss);
    };
    const std::vector<float> on_cpu = on("cpu", Precision::fp32);
    EXPECT_LT(difference(on("simulated", Precision::fp32), on_cpu), 1e-5);
    if (computes("cpu", Precision::bf16)) {
      EXPECT_LT(difference(on("cpu", Precision::bf16), on_cpu), 3e-2);
    }
    EXPECT_LT(difference(on("simulated", Precision::bf16), on_cpu), 3e-2);
  });
}

INSTANTIATE_TEST_SUITE_P(Losses, EveryLoss, testing::ValuesIn(loss_names()), by_name);

// Images are larger than the part that the network sees.
constexpr ImageShape kStored{7, 9, 3};

TEST(LargerTargets, HaveTheirGradientsAndOneResultOnEveryBackend) {
  for (const char* name : {"mean_squared_error", "pixel_cross_entropy"}) {
    SCOPED_TRACE(name);
    const auto loss = testkit::make_loss(name);
    const auto network = enlarging_network(3);
    ASSERT_EQ(network->output(), (Shape{3, 8, 12}));
    const Data data(*network, *loss, 2, kStored);
    std::vector<float> first;
    for (const char* backend : {"cpu", "simulated"}) {
      SCOPED_TRACE(backend);
      const Made made = compile(backend, *network, Precision::fp32, false, {loss});
      const testkit::GradientReport report = testkit::check_gradients(*network, *made.replica, data.batch, {.loss = loss});
      EXPECT_LT(report.worst(), 1e-2) << report.text();
      const std::vector<float> all = results(*network, *made.replica, data.batch, loss);
      if (first.empty()) first = all;
      EXPECT_LT(difference(all, first), 1e-5);
    }
  }
}

// The framework's reference targets, compared with the output by hand.
double squared_error(const Network& network, const Batch& batch, const std::vector<float>& output) {
  const ImageShape stored = batch.target.shape(batch.image), window = batch.target.shape(batch.window);
  const int pixels = window.height * window.width;
  std::vector<std::uint8_t> seen(window.bytes());
  double sum = 0;
  for (std::uint32_t n = 0; n < batch.count; ++n) {
    apply_record(target_record(batch.records[n], batch.target), Image{batch.targets + n * stored.bytes(), stored}, window,
                 seen.data());
    for (int i = 0; batch.weights[n] > 0 && i < pixels * window.channels; ++i) {
      const auto c = static_cast<std::size_t>(i / pixels);
      const double level = seen[static_cast<std::size_t>(i % pixels * window.channels) + c] / 255.0;
      const double wanted = (level - network.mean[c]) / network.deviation[c];
      sum += std::pow(static_cast<double>(output[n * window.bytes() + static_cast<std::size_t>(i)]) - wanted, 2);
    }
  }
  return sum / (batch.weight * static_cast<double>(window.bytes()));
}

TEST(LargerTargets, ArriveWhereTheReferencePutsThem) {
  const auto loss = testkit::make_loss("mean_squared_error");
  const auto network = enlarging_network(3);
  const Data data(*network, *loss, 2, kStored);
  for (const char* backend : {"cpu", "simulated"}) {
    const Made made = compile(backend, *network, Precision::fp32, false, {loss});
    StepSums sums;
    made.replica->infer(data.batch, 0, kBatch, {}, loss, sums)->wait();
    made.replica->finish();
    const double expected = squared_error(*network, *data.batch, made.replica->logits());
    EXPECT_NEAR(sums.loss() / sums.weight(), expected, 1e-5 * expected) << backend;
    EXPECT_EQ(sums.weight(), loss->weight(*data.batch, {0, kBatch}, 8 * 12)) << backend;
  }
}

TEST(LargerTargets, OfAnotherScaleThanTheOutputsAreNotTaken) {
  const auto loss = testkit::make_loss("mean_squared_error");
  const auto network = enlarging_network(3);
  const Data data(*network, *loss, 1);
  const Made made = compile("simulated", *network, Precision::fp32, false, {loss});
  StepSums sums;
  EXPECT_THROW(made.replica->infer(data.batch, 0, kBatch, {}, loss, sums), Error);
}

TEST(Loss, WithoutExamplesIsRefused) {
  Registry registry;
  LossType type;
  type.name = "untested";
  type.info = std::make_shared<LossInfo>();
  try {
    registry.add(type);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the loss 'untested' has no examples, which its tests are made from");
  }
}

}  // namespace
}  // namespace millrace::conformance
