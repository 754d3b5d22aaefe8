// Losses at several outputs of a network, on each backend: their gradients, and the parts left out if an output is not
// requested.
#include <gtest/gtest.h>

#include <algorithm>

#include "millrace/backend/fusion.h"
#include "millrace/error.h"
#include "replicas.h"

namespace millrace::conformance {
namespace {

// A vector next to the result, and a map without further use. `auxiliary`: false leaves both out.
std::string layers(bool auxiliary) {
  const std::string heads = R"(
  { name = "side_norm", op = "batch_norm", from = "stem_relu" },
  { name = "side_pool", op = "global_average_pool" },
  { name = "side", op = "linear", out = 5, auxiliary = true },
  { name = "map", op = "conv", out = 3, kernel = 1, from = "stem_relu", auxiliary = true },
)";
  return fmt::format(R"(
input = {{ channels = 3, height = 12, width = 10 }}
layers = [
  {{ name = "stem", op = "conv", out = 20, kernel = 3, padding = 1 }},
  {{ name = "stem_relu", op = "relu" }},{}
  {{ name = "body", op = "conv", out = 24, kernel = 3, stride = 2, from = "stem_relu" }},
  {{ name = "body_norm", op = "batch_norm" }},
  {{ name = "body_relu", op = "relu" }},
  {{ name = "pool", op = "global_average_pool" }},
  {{ name = "fc", op = "linear", out = 5 }},
]
)",
                     auxiliary ? heads : "");
}

std::shared_ptr<const Network> network_of(bool auxiliary = true) {
  return testkit::network_from_text(layers(auxiliary), with_simulation());
}

LayerPort output_of(const Network& network, std::string_view layer) {
  return static_cast<int>(std::ranges::find(network.layers, layer, &Layer::name) - network.layers.begin());
}

struct Options {
  const char* backend = "cpu";
  Precision precision = Precision::fp32;
  bool recompute = false;
  std::vector<LossAt> losses = {};
  bool trains = true;
};

Made compile_for(const Network& network, const Options& options) {
  Made made;
  made.backend = with_simulation().backends().find(options.backend)->create();
  made.device = made.backend->open(0, {});
  CompileOptions compile;
  compile.train_batch = options.trains ? kBatch : 0;
  compile.infer_batch = kBatch;
  compile.precision = options.precision;
  compile.recompute = options.recompute;
  compile.request.losses = options.losses;
  made.replica = made.device->compile(network, compile);
  made.replica->start();
  testkit::randomise(network, *made.replica, 1);
  return made;
}

// Labels and images of their classes.
struct Data {
  explicit Data(const Network& network) : batch(batch_of(network)), targets(kBatch * 12 * 10) {
    for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = i % 11 == 0 ? 255 : static_cast<std::uint8_t>(i * 7 % 3);
    batch->target.kind = TargetSpec::Kind::classes;
    batch->targets = targets.data();
  }
  Ref<Batch> batch;
  std::vector<std::uint8_t> targets;
};

// The gradients of one step, of every trained parameter.
std::vector<float> gradients(const Network& network, Replica& replica, const Ref<Batch>& batch, std::vector<LossTerm> terms,
                             std::uint32_t count = kBatch) {
  std::vector<StepSums> sums(terms.size());
  for (std::size_t i = 0; i < terms.size(); ++i) terms[i].sums = &sums[i];
  replica.ingest(batch, 0, count);
  replica.forward(3);
  replica.losses(terms);
  replica.backward([](int, Ref<Event>) {});
  replica.finish();
  std::vector<float> all;
  for (std::size_t p = 0; p < network.parameters.size(); ++p) {
    if (!network.parameters[p].trainable) continue;
    const std::vector<float> gradient = replica.read(kGradient, static_cast<int>(p));
    all.insert(all.end(), gradient.begin(), gradient.end());
  }
  for (const StepSums& each : sums) EXPECT_EQ(each.weight() > 0, count > 0);
  return all;
}

class Auxiliary : public InPrecision<bool> {
 protected:
  Auxiliary()
      : network_(network_of()), data_(*network_), side_(output_of(*network_, "side")), map_(output_of(*network_, "map")) {}

  Made compile() const {
    const auto& [backend, precision, recompute] = GetParam();
    const std::vector<LossAt> losses = {main_, {main_, side_}, {pixels_, map_}, {dice_, map_}, smooth_};
    return compile_for(*network_, {backend, precision, recompute, losses});
  }
  static double tolerance() { return std::get<1>(GetParam()) == Precision::bf16 ? 3e-2 : 1e-5; }

  const std::shared_ptr<const Network> network_;
  const Data data_;
  const LayerPort side_, map_;
  const std::shared_ptr<const Loss> main_ = testkit::cross_entropy(), smooth_ = testkit::cross_entropy(0.2),
                                    pixels_ = testkit::make_loss("pixel_cross_entropy"), dice_ = testkit::make_loss("dice");
};

TEST_P(Auxiliary, GradientsAreThoseOfTheSum) {
  const Made made = compile();
  const std::vector<LossTerm> terms = {{main_, 6, nullptr, {}},
                                       {main_, 6 / 0.3, nullptr, side_},
                                       {pixels_, 600 / 0.5, nullptr, map_},
                                       {dice_, 6 / 0.7, nullptr, map_},
                                       {smooth_, 6 / 0.4, nullptr, {}}};
  std::vector<float> expected;
  for (const LossTerm& term : terms) {
    const std::vector<float> one = gradients(*network_, *made.replica, data_.batch, {term});
    expected.resize(one.size(), 0.0F);
    for (std::size_t i = 0; i < one.size(); ++i) expected[i] += one[i];
  }
  EXPECT_LT(difference(gradients(*network_, *made.replica, data_.batch, terms), expected), tolerance());
  EXPECT_GT(difference(gradients(*network_, *made.replica, data_.batch, {terms[0]}), expected), 0.1);
}

TEST_P(Auxiliary, GradientsAreThoseOfDifferences) {
  if (std::get<1>(GetParam()) == Precision::bf16) GTEST_SKIP() << "too coarse";
  const Made made = compile();
  const testkit::GradientReport report = testkit::check_gradients(
      *network_, *made.replica, data_.batch,
      {.loss = main_,
       .auxiliary = {{main_, side_, 0.3}, {pixels_, map_, 0.5}, {dice_, map_, 0.7}, {smooth_, network_->result(), 0.4}}});
  EXPECT_LT(report.worst(), 1e-2) << report.text();
}

TEST_P(Auxiliary, GradientsOfNoSamplesAreZero) {
  const Made made = compile();
  const std::vector<LossTerm> terms = {{main_, 6, nullptr, {}}, {pixels_, 600, nullptr, map_}};
  for (const float each : gradients(*network_, *made.replica, data_.batch, terms, 0)) ASSERT_EQ(each, 0.0F);
}

TEST_P(Auxiliary, OutputsThatWereNotAskedForAreRefused) {
  const auto& [backend, precision, recompute] = GetParam();
  const Made made = compile_for(*network_, {backend, precision, recompute, {main_, {pixels_, map_}}});
  EXPECT_THROW(gradients(*network_, *made.replica, data_.batch, {{main_, 6, nullptr, side_}}), Error);
}

std::size_t activations(const Made& made) {
  for (const MemoryPlan::Item& item : made.replica->memory_plan().items) {
    if (item.what.starts_with("activations")) return item.bytes;
  }
  return 0;
}

// As in a pipeline that requests no auxiliary output.
std::shared_ptr<const Network> without_training_the_rest(const Network& network) {
  auto made = std::make_shared<Network>(network);
  const std::vector<bool> wanted = layers_for(network, {});
  for (std::size_t layer = 0; layer < wanted.size(); ++layer) {
    for (const int parameter : made->layers[layer].parameters) {
      bool& trainable = made->parameters[static_cast<std::size_t>(parameter)].trainable;
      trainable = trainable && wanted[layer];
    }
  }
  return made;
}

// Layers that lead to no requested output cost no memory and change nothing.
TEST_P(Auxiliary, OutputsThatNobodyAsksForAreLeftOut) {
  const auto& [backend, precision, recompute] = GetParam();
  const auto network = without_training_the_rest(*network_), plain = network_of(false);
  const Made with = compile_for(*network, {backend, precision, recompute, {main_}}),
             without = compile_for(*plain, {backend, precision, recompute, {main_}});
  EXPECT_EQ(activations(with), activations(without));
  EXPECT_GT(activations(compile()), activations(with));
  for (std::size_t p = 0; p < plain->parameters.size(); ++p) {
    const std::vector<float> values = without.replica->read(kValue, static_cast<int>(p));
    with.replica->write(kValue, network->find_parameter(plain->parameters[p].name), values);
  }
  const std::vector<LossTerm> terms = {{main_, 6, nullptr, {}}};
  EXPECT_EQ(gradients(*network, *with.replica, data_.batch, terms), gradients(*plain, *without.replica, data_.batch, terms));
  EXPECT_EQ(with.replica->logits(), without.replica->logits());
}

TEST_P(Auxiliary, OutputsCostInferenceNoMemory) {
  const auto& [backend, precision, recompute] = GetParam();
  const auto plain = network_of(false);
  const Made with = compile_for(*network_, {backend, precision, recompute, {main_, {main_, side_}}, false}),
             without = compile_for(*plain, {backend, precision, recompute, {main_}, false});
  EXPECT_EQ(activations(with), activations(without));
}

INSTANTIATE_TEST_SUITE_P(Backends, Auxiliary,
                         testing::Combine(testing::Values("cpu", "simulated"), testing::Values(Precision::fp32, Precision::bf16),
                                          testing::Bool()));

}  // namespace
}  // namespace millrace::conformance
