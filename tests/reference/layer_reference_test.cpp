// Every layer compared with PyTorch: forward, the gradients of inputs and parameters, and its statistics, on every backend in
// float32. tests/reference/README.md, layers.json.
#include <gtest/gtest.h>

#include "millrace/backend/network.h"
#include "millrace/loss.h"
#include "reference_fixture.h"
#include "testkit/losses.h"
#include "testkit/networks.h"

namespace millrace::reference {
namespace {

// A backend with a larger error than the limit, with the measured error and its reason.
struct Exception {
  const char *backend, *layer, *table, *input, *tensor;
  double factor;  // multiple of PyTorch's own error
  const char* why;
};
constexpr const char* kFloatSums = "statistics are summed in float32, as on a GPU; PyTorch sums them in double on a CPU";
constexpr const char* kLongSums = "sums of 4896 products: 2.9 by Winograd's algorithm (AVX-512), 4.2 in one row of a direct one";
constexpr Exception kExceptions[] = {
    {"simulated", "batch_norm", "", "[12,9]", "output", 3.7, kFloatSums},
    {"simulated", "batch_norm", "shift = false, epsilon = 0.001, momentum = 0.4", "[3,32,6,5]", "output", 3.2, kFloatSums},
    {"cpu", "conv", "out = 544, kernel = 3, padding = 1, bias = false", "[3,544,16,16]", "output", 4.2, kLongSums},
};

const Exception* exception_of(const char* backend, const Json& tested, const std::string& tensor) {
  for (const Exception& known : kExceptions) {
    const bool here = known.backend == std::string(backend) && known.layer == tested["layer"] && known.table == tested["table"];
    if (here && tested["tensors"]["input0"]["shape"].dump() == known.input && tensor == known.tensor) return &known;
  }
  return nullptr;
}

// One case on one backend. The network: exact inputs, the layer, and a flatten if its output is a map.
class Trial {
 public:
  Trial(const char* backend, const Json& tested) : backend_(backend), tested_(tested) {
    std::vector<std::vector<std::int64_t>> shapes;
    for (const auto& [name, recipe] : tested["tensors"].items()) {
      if (name.starts_with("input")) shapes.push_back(recipe["shape"]);
    }
    samples_ = static_cast<std::uint32_t>(shapes.front().front());
    image_ = exact_image(shapes);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const std::string name = fmt::format("input{}", i);
      inputs_.push_back(std::make_unique<ExactInput>(name, tested["tensors"][name], image_));
    }
    network_ = testkit::network_from_text(text(), with_simulation());
    made_ = compile_exact(backend, *network_, samples_, loss_);
    for (const auto& input : inputs_) input->write(*network_, *made_.replica);
    each_parameter([&](int p, const std::string&, const Json& recipe) { made_.replica->write(kValue, p, tensor_of(recipe)); });
  }

  void expect_agreement() {
    const Ref<Batch> batch = batch_with_gradient();
    StepSums sums, of_inference;
    if (tested_["output"].contains("inference")) {
      made_.replica->infer(batch, 0, samples_, {}, loss_, of_inference);
      expect_near(made_.replica->logits(), "inference", tested_["output"]["inference"]);
    }
    made_.replica->ingest(batch, 0, samples_);
    made_.replica->forward(0);
    made_.replica->loss(loss_, 2 * kLarge / static_cast<double>(network_->output()[0]), sums);
    made_.replica->backward([](int, Ref<Event>) {});
    expect_near(made_.replica->logits(), "output", tested_["output"]["values"]);
    for (const auto& input : inputs_) {
      const Json& recipe = tested_["tensors"][input->name()];
      const std::vector<float> gradient = input->gradient(*network_, *made_.replica);
      if (recipe.contains("gradient"))
        expect_near(gradient, input->name(), recipe["gradient"]);
      else
        EXPECT_EQ(gradient, std::vector<float>(gradient.size())) << input->name() << ": its values do not matter";
    }
    each_parameter([&](int p, const std::string& name, const Json& recipe) {
      const bool trained = recipe.contains("gradient");
      expect_near(made_.replica->read(trained ? kGradient : kValue, p), name, recipe[trained ? "gradient" : "after"]);
    });
  }

 private:
  // The gradient of mean_squared_error is 2 (output - target) / (channels * divisor). With target -kLarge * g and divisor 2
  // kLarge / channels it is g, since the output is too small to change the difference.
  static constexpr double kLarge = 0x1p40;

  std::string text() const {
    std::string layers, names;
    for (const auto& input : inputs_) {
      layers += input->text();
      names += fmt::format("\"{}\", ", input->name());
    }
    const std::string table = tested_["table"];
    layers += fmt::format("{{ name = \"tested\", op = \"{}\", from = [{}]{}{} }},\n", tested_["layer"].get<std::string>(), names,
                          table.empty() ? "" : ", ", table);
    return exact_network(image_, layers + "{ op = \"flatten\" },\n");
  }
  void each_parameter(const std::function<void(int p, const std::string& name, const Json& recipe)>& use) const {
    for (const auto& [name, recipe] : tested_["tensors"].items()) {
      const int p = network_->find_parameter("tested." + name);
      if (p >= 0) use(p, name, recipe);
    }
  }
  Ref<Batch> batch_with_gradient() {
    const Json& output = tested_["output"];
    const std::int64_t size = network_->output().elements();
    numbers_ = tensor_of(
        {{"shape", {samples_, size}}, {"phase", output["phase"]}, {"scale", output["scale"]}, {"offset", output["offset"]}});
    for (float& number : numbers_) number *= -static_cast<float>(kLarge);
    Ref<Batch> batch = exact_batch(samples_, image_);
    batch->numbers_per_sample = static_cast<std::uint32_t>(size);
    batch->numbers = numbers_.data();
    return batch;
  }
  void expect_near(const std::vector<float>& values, const std::string& tensor, const Json& summary) const {
    const double error = reference_error(values, summary);
    const double of_pytorch = summary["float64_difference"];
    const Exception* const known = exception_of(backend_, tested_, tensor);
    EXPECT_LE(error, known != nullptr ? known->factor * of_pytorch : reference_bound(summary))
        << tensor << ": " << error / of_pytorch << " times PyTorch's error, which is " << of_pytorch
        << (known != nullptr ? fmt::format(". Known: {}", known->why) : "");
  }

  const char* const backend_;
  const Json& tested_;
  const std::shared_ptr<const Loss> loss_ = testkit::make_loss("mean_squared_error");
  std::uint32_t samples_ = 0;
  ImageShape image_;
  std::vector<std::unique_ptr<ExactInput>> inputs_;
  std::shared_ptr<const Network> network_;
  CompiledNetwork made_;
  std::vector<float> numbers_;
};

std::vector<std::string> layer_names() {
  std::vector<std::string> names;
  for (const auto& [name, type] : with_simulation().layers()) {
    if (name == "dropout" || name == "stochastic_depth") continue;  // random
    if (name == "split") continue;  // moves values; conformance's Ports.OfASplitTakeTheirChannels compares it exactly
    names.push_back(name);
  }
  return names;
}

class LayerReference : public testing::TestWithParam<std::string> {};

TEST_P(LayerReference, IsWithinThreeTimesPyTorchsOwnError) {
  const Json file = read_reference("layers.json");
  int cases = 0;
  for (const Json& tested : file["cases"]) {
    if (tested["layer"] != GetParam()) continue;
    ++cases;
    for (const char* backend : kReferenceBackends) {
      if (tested.value("only", backend) != std::string(backend)) continue;
      SCOPED_TRACE(
          fmt::format("{}, {}: {}", backend, tested["table"].get<std::string>(), tested["tensors"]["input0"]["shape"].dump()));
      Trial(backend, tested).expect_agreement();
    }
  }
  EXPECT_GT(cases, 0) << "a layer without a reference: add it to tests/reference/make_layers.py";
}

INSTANTIATE_TEST_SUITE_P(Layers, LayerReference, testing::ValuesIn(layer_names()), by_name);

}  // namespace
}  // namespace millrace::reference
