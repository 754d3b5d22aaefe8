// Every network in pipelines/networks against what is published about it.
#include <gtest/gtest.h>

#include <filesystem>

#include "network/load.h"

namespace millrace {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(MILLRACE_SOURCE_DIR) / "pipelines" / "networks";

std::shared_ptr<const Network> load(const std::string& name) {
  const Registry registry;
  Diagnostics errors;
  auto network = load_network((kFolder / (name + ".toml")).string(), Value(), registry, errors);
  EXPECT_TRUE(errors.empty()) << errors.text();
  return network;
}

struct Published {
  const char* name;
  std::int64_t parameters;      // weights and biases, without running statistics
  std::uint64_t multiply_adds;  // of conv and linear
  int classes;
};

class Zoo : public testing::TestWithParam<Published> {};

// The figures of torchvision's models (its `num_params` and the multiply-adds behind `_ops`); of the others, by hand.
INSTANTIATE_TEST_SUITE_P(Networks, Zoo,
                         testing::Values(Published{"resnet18", 11'689'512, 1'814'073'344, 1000},
                                         Published{"resnet50", 25'557'032, 4'089'184'256, 1000},
                                         Published{"vgg16", 138'357'544, 15'470'264'320, 1000},
                                         Published{"alexnet", 61'100'840, 714'188'480, 1000}),
                         [](const auto& test) { return test.param.name; });

TEST_P(Zoo, HasThePublishedParametersAndMultiplyAdds) {
  const auto network = load(GetParam().name);
  ASSERT_TRUE(network);
  std::int64_t parameters = 0;
  for (const Parameter& parameter : network->parameters) parameters += parameter.statistic ? 0 : parameter.shape.elements();
  std::uint64_t multiply_adds = 0;
  for (const Layer& layer : network->layers) multiply_adds += layer.multiply_adds;
  EXPECT_EQ(parameters, GetParam().parameters);
  EXPECT_EQ(multiply_adds, GetParam().multiply_adds);
  EXPECT_EQ(network->output(), Shape({GetParam().classes}));
}

void expect_parameter(const Network& network, const std::string& name, const Shape& shape) {
  const int index = network.find_parameter(name);
  ASSERT_GE(index, 0) << name;
  EXPECT_EQ(network.parameters[static_cast<std::size_t>(index)].shape, shape) << name;
}

TEST(Zoo, UsesTheNamesOfTorchvision) {
  const auto resnet18 = load("resnet18");
  ASSERT_TRUE(resnet18);
  expect_parameter(*resnet18, "conv1.weight", {64, 3, 7, 7});
  expect_parameter(*resnet18, "layer1.0.conv1.weight", {64, 64, 3, 3});
  expect_parameter(*resnet18, "layer2.0.downsample.0.weight", {128, 64, 1, 1});
  expect_parameter(*resnet18, "layer2.0.downsample.1.running_var", {128});
  expect_parameter(*resnet18, "layer4.1.bn2.bias", {512});
  expect_parameter(*resnet18, "fc.weight", {1000, 512});
  EXPECT_EQ(resnet18->find_parameter("layer1.0.downsample.0.weight"), -1);

  const auto resnet50 = load("resnet50");
  ASSERT_TRUE(resnet50);
  expect_parameter(*resnet50, "layer1.0.downsample.0.weight", {256, 64, 1, 1});
  expect_parameter(*resnet50, "layer3.5.conv3.weight", {1024, 256, 1, 1});
  expect_parameter(*resnet50, "layer4.2.bn3.running_mean", {2048});

  const auto vgg16 = load("vgg16");
  ASSERT_TRUE(vgg16);
  expect_parameter(*vgg16, "features.28.weight", {512, 512, 3, 3});
  expect_parameter(*vgg16, "classifier.0.weight", {4096, 25088});

  const auto alexnet = load("alexnet");
  ASSERT_TRUE(alexnet);
  expect_parameter(*alexnet, "features.0.weight", {64, 3, 11, 11});
  expect_parameter(*alexnet, "classifier.6.weight", {1000, 4096});
}

TEST(Zoo, AirbenchIsThePapersNetwork) {
  const auto network = load("airbench94");
  ASSERT_TRUE(network);
  expect_parameter(*network, "whiten.weight", {24, 3, 2, 2});
  expect_parameter(*network, "whiten.bias", {24});
  expect_parameter(*network, "group1.conv1.weight", {64, 24, 3, 3});
  expect_parameter(*network, "group3.conv2.weight", {256, 256, 3, 3});
  expect_parameter(*network, "group3.bn2.bias", {256});
  expect_parameter(*network, "fc.weight", {10, 256});
  EXPECT_EQ(network->find_parameter("group1.bn1.weight"), -1);
  EXPECT_EQ(network->find_parameter("fc.bias"), -1);
  const Parameter& whiten = network->parameters[static_cast<std::size_t>(network->find_parameter("whiten.weight"))];
  EXPECT_EQ(whiten.initialiser.rule, "whiten");
  EXPECT_FALSE(whiten.trainable);
  EXPECT_TRUE(network->parameters[static_cast<std::size_t>(network->find_parameter("whiten.bias"))].trainable);
  std::int64_t parameters = 0;
  for (const Parameter& parameter : network->parameters) parameters += parameter.statistic ? 0 : parameter.shape.elements();
  EXPECT_EQ(parameters, 1'971'640);  // 312 + 50,688 + 737,280 + 1,179,648 + shifts 1,152 + linear 2,560
  EXPECT_EQ(network->output(), Shape({10}));
}

TEST(Zoo, TheCloudExampleHasFortyThreeLayersWithInputSoftmaxAndOutput) {
  const auto network = load("cifar10_conv");
  ASSERT_TRUE(network);
  EXPECT_EQ(network->layers.size(), 40U);  // MATLAB counts the image input, the softmax and the classification output too
  expect_parameter(*network, "block1.0.conv.weight", {32, 3, 3, 3});
  expect_parameter(*network, "block3.3.bn.weight", {128});
  expect_parameter(*network, "fc.weight", {10, 128});
}

TEST(Zoo, EveryShippedNetworkLoads) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    if (file.path().extension() != ".toml") continue;
    EXPECT_TRUE(load(file.path().stem().string())) << file.path();
    ++count;
  }
  EXPECT_GE(count, 8);
}

}  // namespace
}  // namespace millrace
