// cuDNN plans for an absent device ("deviceless", since cuDNN 9.8), whose properties are given. So any machine with cuDNN can
// plan every convolution of the shipped networks as for an H100, which reveals unsupported attributes or shapes without one.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "convolution.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "runtime/plan_record.h"
#include "testkit/files.h"
#include "testkit/messages.h"
#include "testkit/networks.h"

namespace millrace::cuda {
namespace {

using Kind = ConvolutionShape::Kind;

constexpr const char* kH100 = R"({
  "version": 1, "deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132,
  "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
  "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0,
  "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 85014675456, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
  "l2CacheSize": 52428800})";
constexpr std::size_t kDeviceless = 90800;  // the first version with this feature
constexpr std::int64_t kBatch = 64;
constexpr double kLong = 1000;  // seconds

std::shared_ptr<const CudnnApi> open_cudnn() {
  try {
    return std::make_shared<const CudnnApi>();
  } catch (const Error&) {
    return nullptr;
  }
}

class Deviceless : public testing::Test {
 protected:
  void SetUp() override {
    static const std::shared_ptr<const CudnnApi> shared = open_cudnn();
    api_ = shared;
    if (!api_) GTEST_SKIP() << "there is no cuDNN 9 here";
    if (api_->version() < kDeviceless) GTEST_SKIP() << "cuDNN " << api_->version() << " needs a device";
    properties_ = std::make_unique<Descriptor>(*api_, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "a described device");
    properties_->set_text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, kH100).finalize();
  }
  CudnnTarget target() const { return {.handle = nullptr, .properties = properties_.get()}; }
  // Choices cannot be tried here. Allows time for a busy machine.
  std::shared_ptr<const ConvolutionChoice> choose(const ConvolutionShape& shape, PlanOptions options = {}) const {
    options.search_seconds = kLong;
    const auto any = [](const auto&, std::string&) { return std::optional<double>(0); };
    return choose_engine(*api_, shape, target(), options, any);
  }
  // All candidates for timing.
  std::vector<std::shared_ptr<const ConvolutionChoice>> candidates(const ConvolutionShape& shape) const {
    std::vector<std::shared_ptr<const ConvolutionChoice>> all;
    const auto keep = [&](const std::shared_ptr<const ConvolutionChoice>& choice, std::string&) {
      all.push_back(choice);
      return std::optional<double>(0);
    };
    choose_engine(*api_, shape, target(), {.tune = Tune::measure, .search_seconds = kLong}, keep);
    return all;
  }

  std::shared_ptr<const CudnnApi> api_;
  std::unique_ptr<Descriptor> properties_;
};

ConvolutionShape shape_of(const Layer& layer, Kind kind, DataType type) {
  const auto& conv = layer.as<ConvAttributes>();
  ConvolutionShape s;
  s.kind = kind, s.type = type;
  s.n = kBatch, s.c = layer.input_shapes[0][0], s.h = layer.input_shapes[0][1], s.w = layer.input_shapes[0][2];
  s.k = layer.output[0], s.out_h = layer.output[1], s.out_w = layer.output[2];
  s.kernel_h = conv.kernel.height, s.kernel_w = conv.kernel.width;
  s.stride_h = conv.stride.height, s.stride_w = conv.stride.width;
  s.dilation_h = conv.dilation.height, s.dilation_w = conv.dilation.width;
  s.top = conv.padding.top, s.left = conv.padding.left, s.bottom = conv.padding.bottom, s.right = conv.padding.right;
  s.groups = conv.groups;
  return s;
}

// All of a layer's work in training, in exact float32 and as TF32.
std::vector<ConvolutionShape> work_of(const Layer& layer, DataType type) {
  std::vector<ConvolutionShape> shapes;
  for (const Kind kind : {Kind::forward, Kind::data_gradient, Kind::weight_gradient})
    shapes.push_back(shape_of(layer, kind, type));
  shapes.push_back(shapes[1]);
  shapes.back().accumulate = true;
  for (std::size_t i = 0; type == DataType::f32 && i < 4; ++i) {
    shapes.push_back(shapes[i]);
    shapes.back().tf32 = true;
  }
  return shapes;
}

std::shared_ptr<const Network> load(const std::string& name) {
  Registry registry;
  load_plugin(registry, MILLRACE_PLUGINS "/layers.so");
  return testkit::network_from_file(MILLRACE_SOURCE_DIR "/pipelines/networks/" + name + ".toml", registry);
}

class EveryConvolution : public Deviceless, public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Networks, EveryConvolution,
                         testing::Values("airbench94", "cifar10_conv", "resnet18", "resnet50", "vgg16", "alexnet"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(EveryConvolution, HasAnEngineForwardAndBackward) {
  const auto network = load(GetParam());
  ASSERT_TRUE(network);
  const PlanOptions options{.deterministic = true};  // the stricter choice
  std::map<std::string, bool> planned;
  std::size_t largest = 0;
  for (const Layer& layer : network->layers) {
    if (layer.op != "conv") continue;
    for (const DataType type : {DataType::bf16, DataType::f32}) {
      for (const ConvolutionShape& shape : work_of(layer, type)) {
        if (planned[text_of(shape)]) continue;
        const auto found = choose(shape, options);  // throws if there is none
        const ConvolutionChoice& choice = *found;
        planned[text_of(shape)] = true;
        largest = std::max(largest, choice.engine.workspace);
        EXPECT_LE(choice.engine.workspace, options.workspace_limit);
        EXPECT_TRUE(choice.engine.name.starts_with("cuDNN engine ")) << choice.engine.name;
        EXPECT_FALSE(choice.engine.compiled) << text_of(shape);
      }
    }
  }
  RecordProperty("plans", static_cast<int>(planned.size()));
  RecordProperty("largest_workspace_mib", static_cast<int>(largest >> 20));
}

ConvolutionShape example(DataType type) {
  ConvolutionShape shape;
  shape.type = type;
  shape.n = 32, shape.c = 64, shape.k = 128, shape.h = shape.w = shape.out_h = shape.out_w = 28;
  shape.kernel_h = shape.kernel_w = 3;
  shape.top = shape.left = shape.bottom = shape.right = 1;
  return shape;
}

// Kernels that add a bias and a ReLU in float32 are part of cuDNN. Others are compiled with the driver's help; without a driver
// the result is the bare convolution.
TEST_F(Deviceless, BiasAndActivationAreFusedOrLeftToUs) {
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
      ConvolutionShape shape = example(type);
      shape.bias = true;
      shape.activation = activation;
      const bool part_of_cudnn = type == DataType::f32 && activation == Activation::relu;
      EXPECT_TRUE(choose(shape)->epilogue == Epilogue::fused || !part_of_cudnn) << text_of(shape);
    }
  }
  EXPECT_EQ(choose(example(DataType::bf16))->epilogue, Epilogue::none);
}

TEST_F(Deviceless, ExactFloatAndTf32TakeDifferentEngines) {
  ConvolutionShape shape = example(DataType::f32);
  const std::string exact = choose(shape)->engine.name;
  shape.tf32 = true;
  EXPECT_NE(choose(shape)->engine.name, exact);
}

std::vector<ConvolutionShape> all_kinds(DataType type) {
  std::vector<ConvolutionShape> shapes;
  for (const Kind kind : {Kind::forward, Kind::data_gradient, Kind::weight_gradient}) {
    shapes.push_back(example(type));
    shapes.back().kind = kind;
  }
  return shapes;
}

// As saved with a run's weights: one line, which fits the file's header.
TEST_F(Deviceless, AChoiceIsRestoredFromWhatARunSaved) {
  const auto nothing_said = [](std::string_view message) { ADD_FAILURE() << message; };
  for (const ConvolutionShape& shape : all_kinds(DataType::bf16)) {
    for (const auto& candidate : candidates(shape)) {
      const ConvolutionChoice& choice = *candidate;
      PlanRecord earlier("", nothing_said);
      earlier.library("cuDNN", "91900");
      earlier.put("cuDNN", text_of(shape), save(choice));
      PlanRecord record(earlier.text(), nothing_said);
      record.library("cuDNN", "91900");
      const auto text = record.find("cuDNN", text_of(shape));
      ASSERT_TRUE(text);
      EXPECT_LT(text->size(), 200u) << *text;
      const auto again = restore_choice(*api_, shape, target(), {}, *text);
      ASSERT_TRUE(again) << *text;
      EXPECT_EQ(save(*again), *text);
      EXPECT_EQ(again->engine.name, choice.engine.name);
      EXPECT_EQ(again->engine.workspace, choice.engine.workspace);
      EXPECT_EQ(again->epilogue, choice.epilogue);
    }
  }
}

// A file may name any engine for any shape. The engine is made for the current shape, or refused.
TEST_F(Deviceless, AChoiceIsHeldToItsShapeAndToTheOptions) {
  int need_workspace = 0;
  for (const ConvolutionShape& shape : all_kinds(DataType::bf16)) {
    for (const auto& candidate : candidates(shape)) {
      const ConvolutionChoice& choice = *candidate;
      if (choice.engine.workspace == 0) continue;
      ++need_workspace;
      EXPECT_FALSE(restore_choice(*api_, shape, target(), {.workspace_limit = choice.engine.workspace - 1}, save(choice)));
    }
  }
  EXPECT_GT(need_workspace, 0);
  ConvolutionShape tf32 = example(DataType::f32);
  tf32.tf32 = true;
  EXPECT_FALSE(restore_choice(*api_, example(DataType::f32), target(), {}, save(*choose(tf32)))) << "rounds more than is allowed";
}

TEST_F(Deviceless, DamagedChoicesAreRefused) {
  const ConvolutionShape shape = example(DataType::bf16);
  for (const char* text : {"", "bare", "bare ", "bare x", "bare -1", "bare 0 ", "bare 0 1", "bare 0 1=", "bare 999999",
                           "bare 0 99=1", "bare 9223372036854775808", "bare {}", "whole 0"}) {
    EXPECT_FALSE(restore_choice(*api_, shape, target(), {}, text)) << text;
  }
  EXPECT_FALSE(restore_choice(*api_, shape, target(), {}, "fused" + save(*choose(shape)).substr(4))) << "has nothing to fuse";
  EXPECT_FALSE(restore_compiled(*api_, shape, target(), {}, "bare 999999\n{}"));
}

// Only run-time compiled engines need their code; others represent them if there is no driver to compile for.
TEST_F(Deviceless, CodeIsTakenBackForTheEngineThatItIsOf) {
  for (const ConvolutionShape& shape : all_kinds(DataType::bf16)) {
    const auto found = choose(shape);
    const ConvolutionChoice& choice = *found;
    const auto code = write_compiled(choice.engine);
    ASSERT_TRUE(code);
    const ConvolutionGraph graph(*api_, shape, choice.epilogue, target());
    const EngineRules rules{.type = shape.type};
    EngineSearch search(*api_, graph, target(), rules, choice.engine.workspace);
    const auto again = search.take_compiled(choice.engine.choice, *code);
    ASSERT_TRUE(again) << search.why_not();
    EXPECT_EQ(again->workspace, choice.engine.workspace);
    EXPECT_FALSE(search.take_compiled("0", *code)) << "of another engine";
    EXPECT_FALSE(search.take_compiled(choice.engine.choice, code->substr(0, code->size() / 2)));
    EXPECT_EQ(save(*restore_compiled(*api_, shape, target(), {}, save(choice) + "\n{}")), save(choice)) << "compiled again";
  }
}

TEST_F(Deviceless, GroupsAndUnevenPaddingArePlanned) {
  ConvolutionShape depthwise = example(DataType::bf16);
  depthwise.k = depthwise.groups = depthwise.c = 60;
  ConvolutionShape grouped = example(DataType::f32);
  grouped.c = 24, grouped.k = 36, grouped.groups = 3;
  ConvolutionShape uneven = example(DataType::bf16);
  uneven.kernel_h = uneven.kernel_w = 2;
  uneven.top = uneven.left = 0;
  for (ConvolutionShape shape : {depthwise, grouped, uneven}) {
    for (const Kind kind : {Kind::forward, Kind::data_gradient, Kind::weight_gradient}) {
      shape.kind = kind;
      EXPECT_NO_THROW(choose(shape)) << text_of(shape);
    }
  }
}

TEST_F(Deviceless, NoEngineIsTriedTwice) {
  for (const DataType type : {DataType::bf16, DataType::f32}) {
    for (const ConvolutionShape& shape : all_kinds(type)) {
      std::set<std::string> seen;
      for (const auto& choice : candidates(shape)) EXPECT_TRUE(seen.insert(save(*choice)).second) << save(*choice);
    }
  }
}

TEST_F(Deviceless, SeveralEnginesForMeasuring) { EXPECT_EQ(candidates(example(DataType::bf16)).size(), kMaxMeasured); }

// Without run-time compilation there is still an engine for bias and activation, possibly of the bare convolution.
TEST_F(Deviceless, NothingNeedsToBeCompiled) {
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
      ConvolutionShape shape = example(type);
      shape.bias = true;
      shape.activation = activation;
      EXPECT_FALSE(choose(shape, {.compiles = false})->engine.compiled) << text_of(shape);
    }
  }
}

TEST_F(Deviceless, TheNextEngineIsTakenWhereOneFails) {
  for (const ConvolutionShape& shape : all_kinds(DataType::bf16)) {
    const auto all = candidates(shape);
    std::size_t tried = 0;
    const auto third_works = [&](const auto&, std::string&) { return tried++ < 2 ? std::nullopt : std::optional<double>(0); };
    EXPECT_EQ(choose_engine(*api_, shape, target(), {.search_seconds = kLong}, third_works)->engine.choice,
              all[2]->engine.choice);
  }
}

TEST_F(Deviceless, TheFastestIsTakenOfThoseThatAreTimed) {
  const ConvolutionShape shape = example(DataType::bf16);
  const auto all = candidates(shape);
  double seconds = 1;
  const auto faster_and_faster = [&](const auto&, std::string&) { return std::optional<double>(seconds /= 2); };
  const PlanOptions options{.tune = Tune::measure, .search_seconds = kLong};
  EXPECT_EQ(choose_engine(*api_, shape, target(), options, faster_and_faster)->engine.choice, all.back()->engine.choice);
}

// A bias that cannot be fused in time is added by our own element.
TEST_F(Deviceless, ASearchThatIsOutOfTimeTakesTheBareConvolution) {
  ConvolutionShape shape = example(DataType::f32);
  shape.bias = true;
  shape.activation = Activation::relu;
  ASSERT_EQ(choose(shape)->epilogue, Epilogue::fused);
  double now = 0;
  std::size_t tried = 0;
  const auto slow = [&](const std::shared_ptr<const ConvolutionChoice>& choice, std::string&) {
    now += 100;
    ++tried;
    return choice->epilogue == Epilogue::fused ? std::nullopt : std::optional<double>(0);
  };
  const auto choice = choose_engine(*api_, shape, target(), {}, slow, [&] { return now; });
  EXPECT_EQ(choice->epilogue, Epilogue::none);
  EXPECT_EQ(tried, 2U);
}

TEST_F(Deviceless, SaysWhyTheLastEngineFailed) {
  const auto none = [](const auto&, std::string& why_not) {
    why_not = "it does not run";
    return std::optional<double>();
  };
  const Error error =
      testkit::error_of(ErrorKind::usage, [&] { choose_engine(*api_, example(DataType::bf16), target(), {}, none); });
  EXPECT_TRUE(std::string(error.what()).starts_with("cuDNN ")) << error.what();
}

TEST_F(Deviceless, WhatNoEngineMayDoIsSaidPlainly) {
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { choose(example(DataType::u8)); }).what());
  ConvolutionShape wrong = example(DataType::f32);
  wrong.out_h = 5;  // inconsistent with kernel, stride, padding and 28
  EXPECT_THROW(choose(wrong), Error);
}

}  // namespace
}  // namespace millrace::cuda
