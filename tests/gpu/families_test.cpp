// A training step of each family of the zoo, as small as possible: the device compared with the CPU backend.
#include <cstdlib>

#include "agreement.h"
#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "network/load.h"
#include "toml/document.h"

namespace millrace::gpu {
namespace {

struct Family {
  const char* name;
  const char* network;
  std::vector<std::pair<const char*, Value>> variables = {};
  std::int64_t narrower = 1;  // divisor of fixed widths
  bool gives_map = false;     // it ends in a map; a small classifier is appended, since batches here have labels
  std::size_t heads = 0;      // auxiliary outputs, each with a loss
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }  // GoogleTest requires this name

Value number(std::int64_t value) { return Value(value); }

Value table(const std::vector<std::pair<const char*, Value>>& members) {
  Value result;
  for (const auto& [key, value] : members) result.set(key, value);
  return result;
}

// Only networks with sequential layers remain valid.
void narrow(Value& value, std::int64_t by) {
  if (value.kind() == Value::Kind::array) {
    for (Value& entry : value.array()) narrow(entry, by);
  } else if (value.kind() == Value::Kind::table) {
    for (Member& member : value.table()) {
      const bool is_width = member.key == "out" && member.value.kind() == Value::Kind::integer && member.value.integer() >= 64;
      if (is_width)
        member.value = Value(member.value.integer() / by, member.value.at());
      else
        narrow(member.value, by);
    }
  }
}

void add_classifier(Value& document, Diagnostics& errors) {
  const auto more = parse_toml(R"(layers = [
    { name = "to_classes_pool", op = "adaptive_average_pool", size = 4 },
    { name = "to_classes", op = "linear", out = 5 } ])",
                               "text", errors);
  errors.throw_if_any();
  for (const Value& layer : more->find("layers")->array()) document.find("layers")->array().push_back(layer);
}

std::shared_ptr<const Network> load(const Family& family, const Registry& registry) {
  Diagnostics errors;
  auto document = read_document(pipelines_folder() + "/networks/" + family.network + ".toml", {}, errors);
  errors.throw_if_any();
  if (family.narrower > 1) narrow(*document, family.narrower);
  if (family.gives_map) add_classifier(*document, errors);
  auto network = build_network(*document, family.network, table(family.variables), registry, errors);
  errors.throw_if_any();
  return network;
}

// Outputs of layers without readers, except the last layer.
std::vector<LayerPort> auxiliary_outputs(const Network& network) {
  std::vector<bool> read(network.layers.size());
  for (const Layer& layer : network.layers) {
    for (const LayerPort input : layer.inputs) {
      if (input.layer != Network::kInput) read[static_cast<std::size_t>(input.layer)] = true;
    }
  }
  std::vector<LayerPort> outputs;
  for (std::size_t i = 0; i + 1 < read.size(); ++i) {
    if (!read[i]) outputs.emplace_back(static_cast<int>(i));
  }
  return outputs;
}

// Small networks are compared gradient by gradient, and with more draws of rounding.
bool is_small(const Network& network) {
  std::int64_t elements = 0;
  for (const Parameter& parameter : network.parameters) elements += parameter.shape.elements();
  return elements < 4'000'000;
}

class GpuFamilies : public GpuTest, public testing::WithParamInterface<Family> {
 protected:
  void train_a_step() {
    const auto network = load(GetParam(), registry());
    Course course = {.batch = 2, .steps = 1, .rate = 1e-3};
    const std::vector<LayerPort> auxiliary = auxiliary_outputs(*network);
    ASSERT_EQ(auxiliary.size(), GetParam().heads);
    if (!auxiliary.empty()) course.outputs.emplace_back(std::nullopt, 1.0);
    for (const LayerPort output : auxiliary) course.outputs.emplace_back(output, 0.3);
    Comparison compared(network, course, 11);
    compared.expect_like_oracle(compared.train(device(), {.precision = Precision::fp32}), oracle(), Precision::fp32,
                                is_small(*network));
  }
};

std::vector<std::pair<const char*, Value>> size(std::int64_t pixels, std::vector<std::pair<const char*, Value>> more = {}) {
  more.emplace_back("height", number(pixels));
  more.emplace_back("width", number(pixels));
  return more;
}
std::vector<std::pair<const char*, Value>> shallow(std::int64_t pixels, std::vector<std::pair<const char*, Value>> more = {}) {
  for (const char* depth : {"depth1", "depth2", "depth3", "depth4"}) more.emplace_back(depth, number(1));
  return size(pixels, std::move(more));
}

TEST_P(GpuFamilies, TrainAStepAsOnTheCpu) { train_a_step(); }

// Maps are at least 2 x 2 before a batch norm, which would turn any two values into 1 and -1.
INSTANTIATE_TEST_SUITE_P(
    Zoo, GpuFamilies,
    testing::Values(Family{"alexnet", "alexnet", size(64), 8}, Family{"vgg", "vgg16_bn", size(64), 8},
                    Family{"googlenet", "googlenet", size(64, {{"auxiliary", Value(true)}}), 1, false, 2},
                    Family{"squeezenet", "squeezenet1_1", size(64)}, Family{"resnet", "resnet18", shallow(64)},
                    Family{"resnext", "resnext50_32x4d", shallow(64)}, Family{"densenet", "densenet121", shallow(64)},
                    Family{"mobilenet_v2", "mobilenet_v2", size(64)}, Family{"mobilenet_v3", "mobilenet_v3_small", size(64)},
                    Family{"shufflenet", "shufflenet_v2_x1_0", size(64)}, Family{"efficientnet", "efficientnet_b0", size(64)},
                    Family{"convnext", "convnext_tiny", size(32)}, Family{"segnet", "segnet", size(64), 8, true},
                    Family{"unet", "unet", size(32, {{"filters", number(8)}}), 1, true},
                    Family{"fcn", "fcn_resnet50", shallow(32), 1, true},
                    Family{"deeplab", "deeplabv3_resnet50", shallow(32), 1, true},
                    Family{"dncnn", "dncnn", size(32, {{"depth", number(5)}, {"filters", number(16)}}), 1, true},
                    Family{"espcn", "espcn", size(32), 1, true}),
    [](const auto& tested) { return tested.param.name; });

// Whole networks, or larger ones. Plain loops need minutes for some.
class GpuZoo : public GpuFamilies {
 protected:
  void SetUp() override {
    if (std::getenv("MILLRACE_GPU_TEST_ZOO") == nullptr) {  // NOLINT(concurrency-mt-unsafe)
      GTEST_SKIP() << "MILLRACE_GPU_TEST_ZOO is not set: it asks for all of the zoo";
    }
    GpuFamilies::SetUp();
  }
};

TEST_P(GpuZoo, TrainAStepAsOnTheCpu) { train_a_step(); }

INSTANTIATE_TEST_SUITE_P(
    Whole, GpuZoo,
    testing::Values(Family{"vgg19", "vgg19", size(64), 8}, Family{"resnet34", "resnet34", size(64)},
                    Family{"resnet50", "resnet50", size(64)}, Family{"wide_resnet50_2", "wide_resnet50_2", size(64)},
                    Family{"resnext50_32x4d", "resnext50_32x4d", size(64)}, Family{"densenet121", "densenet121", size(64)},
                    Family{"mobilenet_v3_large", "mobilenet_v3_large", size(64)},
                    Family{"inception_v3", "inception_v3", size(160, {{"auxiliary", Value(true)}}), 1, false, 1},
                    Family{"segnet_basic", "segnet_basic", size(64), 1, true}, Family{"unet", "unet", size(64), 1, true},
                    Family{"unet_transposed", "unet", size(64, {{"up", Value("transposed")}}), 1, true},
                    Family{"unet_bilinear", "unet", size(64, {{"up", Value("bilinear")}}), 1, true},
                    Family{"fcn_resnet50", "fcn_resnet50", size(64), 1, true},
                    Family{"deeplabv3_resnet50", "deeplabv3_resnet50", size(64), 1, true}, Family{"dncnn", "dncnn", {}, 1, true}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace millrace::gpu
