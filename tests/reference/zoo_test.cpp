// Every network in pipelines/networks compared with published data.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "millrace/backend/network.h"
#include "millrace/util/load_plugins.h"
#include "network/load.h"

namespace millrace::zoo_test {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(MILLRACE_SOURCE_DIR) / "pipelines" / "networks";

const Registry& registry() {
  static const Registry* const loaded = [] {
    auto* made = new Registry;
    load_all_plugins(*made);
    return made;
  }();
  return *loaded;
}

std::shared_ptr<const Network> load(const std::string& name, const Value& variables = Value()) {
  Diagnostics errors;
  auto network = load_network((kFolder / (name + ".toml")).string(), variables, registry(), errors);
  EXPECT_TRUE(errors.empty()) << errors.text();
  return network;
}

Value table(std::initializer_list<std::pair<std::string, Value>> members) {
  Value result;
  for (const auto& [key, value] : members) result.set(key, value);
  return result;
}

std::int64_t trained_parameters(const Network& network) {
  std::int64_t sum = 0;
  for (const Parameter& parameter : network.parameters) sum += parameter.statistic ? 0 : parameter.shape.elements();
  return sum;
}

// FNV-1a, 64 bits, over a line "NAME SHAPE" for each tensor of a file of weights, in the order of the names. zoo_names.py prints
// it for networks whose names and shapes are torchvision's.
std::uint64_t hash_of_names(const Network& network) {
  std::vector<std::string> lines;
  for (const Parameter& parameter : network.parameters) {
    const std::string& name = parameter.stored_name.empty() ? parameter.name : parameter.stored_name;
    const Shape& shape = parameter.stored_shape.rank() == 0 ? parameter.shape : parameter.stored_shape;
    lines.push_back(fmt::format("{} {}\n", name, fmt::join(shape.begin(), shape.end(), "x")));
  }
  std::sort(lines.begin(), lines.end());
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::string& line : lines) {
    for (const char c : line) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3U;
  }
  return hash;
}

void expect_parameter(const Network& network, const std::string& name, const Shape& shape) {
  const int index = network.find_parameter(name);
  ASSERT_GE(index, 0) << name;
  EXPECT_EQ(network.parameters[static_cast<std::size_t>(index)].shape, shape) << name;
}

struct Published {
  const char* name;
  std::int64_t parameters;      // weights and biases, without running statistics
  std::uint64_t multiply_adds;  // in conv and linear
  std::uint64_t names;          // hash of all names and shapes
};

class Zoo : public testing::TestWithParam<Published> {};

// Values of torchvision's models: zoo_names.py prints parameters and hashes; the multiply-adds round to the published `_ops`.
INSTANTIATE_TEST_SUITE_P(Networks, Zoo,
                         testing::Values(Published{"alexnet", 61'100'840, 714'188'480, 0x1ee8f3858b0010a6},
                                         Published{"vgg16", 138'357'544, 15'470'264'320, 0xd903676470699f1a},
                                         Published{"vgg19", 143'667'240, 19'632'062'464, 0xe1c939697103d426},
                                         Published{"vgg16_bn", 138'365'992, 15'470'264'320, 0xec160d1ebfad7723},
                                         Published{"vgg19_bn", 143'678'248, 19'632'062'464, 0xb3c74cc6dbd094e4},
                                         Published{"googlenet", 6'624'904, 1'498'376'192, 0xe45564d481660939},
                                         Published{"inception_v3", 23'834'568, 5'713'216'096, 0xb22bffc68d12bf75},
                                         Published{"squeezenet1_1", 1'235'496, 349'151'936, 0x19ac5599a75b445e},
                                         Published{"resnet18", 11'689'512, 1'814'073'344, 0xc340bda65f536872},
                                         Published{"resnet34", 21'797'672, 3'663'761'408, 0x29f522befd56d7ea},
                                         Published{"resnet50", 25'557'032, 4'089'184'256, 0x536158e742196701},
                                         Published{"resnet101", 44'549'160, 7'801'405'440, 0xeedb88dea2cf077a},
                                         Published{"resnet152", 60'192'808, 11'513'626'624, 0x0d0407254f679736},
                                         Published{"resnext50_32x4d", 25'028'904, 4'230'479'872, 0xfbf5a306f35ee40e},
                                         Published{"resnext101_32x8d", 88'791'336, 16'414'015'488, 0x25d5b732ccd78575},
                                         Published{"resnext101_64x4d", 83'455'272, 15'460'270'080, 0x930ac1817467ed2a},
                                         Published{"wide_resnet50_2", 68'883'240, 11'398'021'120, 0x43681b3da8bd683d},
                                         Published{"densenet121", 7'978'856, 2'834'161'664, 0xf082c9b8fd55d7e7},
                                         Published{"mobilenet_v2", 3'504'872, 300'774'272, 0xfb177d8f06753e7f},
                                         Published{"mobilenet_v3_large", 5'483'032, 216'589'760, 0xee737656f8ab7574},
                                         Published{"mobilenet_v3_small", 2'542'856, 56'510'400, 0x77966c5e5da827ed},
                                         Published{"efficientnet_b0", 5'288'548, 385'814'752, 0x3c6996af42a459e6},
                                         Published{"shufflenet_v2_x1_0", 2'278'604, 144'907'992, 0xf5e6788f90edde8d},
                                         Published{"convnext_tiny", 28'589'128, 4'455'531'264, 0x6c9d457520498ccd}),
                         [](const auto& test) { return test.param.name; });

TEST_P(Zoo, HasTorchvisionsNamesParametersAndMultiplyAdds) {
  const auto network = load(GetParam().name);
  ASSERT_TRUE(network);
  std::uint64_t multiply_adds = 0;
  for (const Layer& layer : network->layers) multiply_adds += layer.multiply_adds;
  EXPECT_EQ(trained_parameters(*network), GetParam().parameters);
  EXPECT_EQ(multiply_adds, GetParam().multiply_adds);
  EXPECT_EQ(hash_of_names(*network), GetParam().names) << "zoo_names.py says which names or shapes differ";
  EXPECT_EQ(network->output(), Shape({1000}));
}

// Networks with several outputs, or with outputs other than an image's class.
struct PublishedHeads {
  const char* name;
  bool auxiliary;
  std::int64_t parameters;
  std::uint64_t names;
};

TEST(Zoo, AuxiliaryHeadsAndSegmentersHaveTorchvisionsNamesAndParameters) {
  for (const auto& [name, auxiliary, parameters, names] :
       {PublishedHeads{"googlenet", true, 13'004'888, 0x85e31dcd73ddb135},
        PublishedHeads{"inception_v3", true, 27'161'264, 0xeb11fc45b81dfdbc},
        PublishedHeads{"fcn_resnet50", false, 32'957'013, 0xc3c9b8ccb45a873c},
        PublishedHeads{"fcn_resnet50", true, 35'322'218, 0x462e1dad9ad96917},
        PublishedHeads{"deeplabv3_resnet50", false, 39'638'869, 0x0046382db46c7892},
        PublishedHeads{"deeplabv3_resnet50", true, 42'004'074, 0xed6724e72b50e563}}) {
    SCOPED_TRACE(name);
    const auto network = load(name, table({{"auxiliary", Value(auxiliary)}}));
    ASSERT_TRUE(network);
    EXPECT_EQ(trained_parameters(*network), parameters);
    EXPECT_EQ(hash_of_names(*network), names) << "zoo_names.py says which names or shapes differ";
  }
}

TEST(Zoo, SegmentersTellClassesOfEachPixel) {
  for (const char* name : {"fcn_resnet50", "deeplabv3_resnet50", "segnet", "segnet_basic"}) {
    const auto network = load(name, table({{"classes", Value(5)}, {"height", Value(96)}, {"width", Value(64)}}));
    ASSERT_TRUE(network) << name;
    EXPECT_EQ(network->output(), (Shape{5, 96, 64})) << name;
  }
}

TEST(Zoo, DilatedStagesKeepTheMapsSize) {
  const auto network = load("fcn_resnet50", table({{"height", Value(64)}, {"width", Value(64)}}));
  ASSERT_TRUE(network);
  const auto last = std::find_if(network->layers.begin(), network->layers.end(),
                                 [](const Layer& layer) { return layer.name == "backbone.layer4.2.conv3"; });
  ASSERT_NE(last, network->layers.end());
  EXPECT_EQ(last->output, (Shape{2048, 8, 8}));
}

TEST(Zoo, SegNetHasItsPapersParameters) {
  const auto segnet = load("segnet"), basic = load("segnet_basic");
  ASSERT_TRUE(segnet && basic);
  EXPECT_EQ(trained_parameters(*segnet), 29'449'355);  // 29.45 million
  expect_parameter(*segnet, "features.40.weight", {512, 512, 3, 3});
  expect_parameter(*segnet, "decoder4.2.conv.weight", {256, 512, 3, 3});
  expect_parameter(*segnet, "decoder1.1.conv.weight", {11, 64, 3, 3});
  EXPECT_EQ(trained_parameters(*basic), 1'416'075);  // 9,408 + 7 * 200,704 + batch norms 1,024 + classifier 715
}

TEST(Zoo, DnCnnAndEspcnGiveImages) {
  const auto grey = load("dncnn"), colour = load("dncnn", table({{"channels", Value(3)}, {"depth", Value(20)}})),
             larger = load("espcn");
  ASSERT_TRUE(grey && colour && larger);
  EXPECT_EQ(trained_parameters(*grey), 556'097);  // 640 + 15 * 36,992 + 577
  EXPECT_EQ(grey->output(), (Shape{1, 40, 40}));
  EXPECT_EQ(trained_parameters(*colour), 669'379);  // 1,792 + 18 * 36,992 + 1,731
  EXPECT_EQ(colour->output(), (Shape{3, 40, 40}));
  EXPECT_EQ(trained_parameters(*larger), 22'729);  // 1,664 + 18,464 + 2,601
  EXPECT_EQ(larger->output(), (Shape{1, 96, 96}));
}

TEST_P(Zoo, TakesAnotherNumberOfClasses) {
  const auto network = load(GetParam().name, table({{"classes", Value(7)}}));
  ASSERT_TRUE(network);
  EXPECT_EQ(network->output(), Shape({7}));
}

// Readable counterparts of the hashes.
TEST(Zoo, UsesTheNamesOfTorchvision) {
  const auto resnet50 = load("resnet50");
  ASSERT_TRUE(resnet50);
  expect_parameter(*resnet50, "layer1.0.downsample.0.weight", {256, 64, 1, 1});
  expect_parameter(*resnet50, "layer4.2.bn3.running_mean", {2048});
  const auto densenet121 = load("densenet121");
  ASSERT_TRUE(densenet121);
  expect_parameter(*densenet121, "features.denseblock1.denselayer6.conv1.weight", {128, 224, 1, 1});
  const auto mobilenet = load("mobilenet_v3_small");
  ASSERT_TRUE(mobilenet);
  expect_parameter(*mobilenet, "features.4.block.2.fc1.weight", {24, 96, 1, 1});
  const auto shufflenet = load("shufflenet_v2_x1_0");
  ASSERT_TRUE(shufflenet);
  expect_parameter(*shufflenet, "stage2.0.branch1.2.weight", {58, 24, 1, 1});
  expect_parameter(*shufflenet, "stage3.7.branch2.3.weight", {116, 1, 3, 3});
}

TEST(Zoo, ResNetsTakeAStemForSmallImages) {
  for (const char* name : {"resnet18", "resnet50", "resnext50_32x4d"}) {
    const auto network =
        load(name, table({{"stem", Value("small")}, {"height", Value(32)}, {"width", Value(32)}, {"classes", Value(10)}}));
    ASSERT_TRUE(network);
    expect_parameter(*network, "conv1.weight", {64, 3, 3, 3});
    const auto first = std::find_if(network->layers.begin(), network->layers.end(),
                                    [](const Layer& layer) { return layer.name == "layer1.0.conv1"; });
    ASSERT_NE(first, network->layers.end());
    EXPECT_EQ(first->input_shapes[0], (Shape{64, 32, 32})) << name;
    EXPECT_EQ(network->output(), Shape({10}));
  }
}

TEST(Zoo, ImagesMayHaveAnotherSize) {
  for (const char* name :
       {"alexnet", "vgg16", "vgg19_bn", "resnet34", "googlenet", "inception_v3", "squeezenet1_1", "densenet121", "mobilenet_v2",
        "mobilenet_v3_large", "efficientnet_b0", "shufflenet_v2_x1_0", "convnext_tiny"}) {
    const auto network = load(name, table({{"height", Value(193)}, {"width", Value(161)}}));
    ASSERT_TRUE(network) << name;
    EXPECT_EQ(network->output(), Shape({1000})) << name;
  }
}

// torchvision's pool to 6 x 6 or 7 x 7 has no effect at 224 x 224. It is left out there, so that layers keep their numbers, and
// dropout its draws.
TEST(Zoo, AlexNetAndVggsPoolOnlyMapsOfAnotherSize) {
  const auto pool = [](const char* name, std::int64_t height, std::int64_t width) {
    const auto network = load(name, table({{"height", Value(height)}, {"width", Value(width)}}));
    EXPECT_TRUE(network) << name;
    const auto found =
        std::find_if(network->layers.begin(), network->layers.end(), [](const Layer& layer) { return layer.name == "avgpool"; });
    return found == network->layers.end() ? Shape() : found->output;
  };
  EXPECT_EQ(pool("alexnet", 224, 224), Shape());
  EXPECT_EQ(pool("alexnet", 63, 224), (Shape{256, 6, 6}));
  EXPECT_EQ(pool("vgg16", 224, 255), Shape());
  EXPECT_EQ(pool("vgg16", 32, 96), (Shape{512, 7, 7}));
  EXPECT_EQ(pool("vgg19_bn", 224, 256), (Shape{512, 7, 7}));
}

TEST(Zoo, LeNet5AndTheOriginalAlexNetHaveTheirPapersParameters) {
  const auto lenet5 = load("lenet5");
  ASSERT_TRUE(lenet5);
  EXPECT_EQ(trained_parameters(*lenet5), 61'706);  // 156 + 2,416 + 48,120 + 10,164 + 850
  EXPECT_EQ(lenet5->output(), Shape({10}));
  const auto alexnet = load("alexnet_caffe");
  ASSERT_TRUE(alexnet);
  EXPECT_EQ(trained_parameters(*alexnet), 60'965'224);
  expect_parameter(*alexnet, "conv2.weight", {256, 48, 5, 5});
  expect_parameter(*alexnet, "fc6.weight", {4096, 9216});
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
  EXPECT_EQ(trained_parameters(*network), 1'971'640);  // 312 + 50,688 + 737,280 + 1,179,648 + shifts 1,152 + linear 2,560
  EXPECT_EQ(network->output(), Shape({10}));
}

TEST(Zoo, TheCloudExampleHasFortyThreeLayersWithInputSoftmaxAndOutput) {
  const auto network = load("cifar10_conv");
  ASSERT_TRUE(network);
  EXPECT_EQ(network->layers.size(), 40U);  // MATLAB also counts the image input, the softmax and the classification output
  expect_parameter(*network, "block1.0.conv.weight", {32, 3, 3, 3});
  expect_parameter(*network, "block3.3.bn.weight", {128});
  expect_parameter(*network, "fc.weight", {10, 128});
}

TEST(Zoo, UNetTellsClassesOfEachPixel) {
  const auto network = load("unet", table({{"classes", Value(5)}, {"height", Value(64)}, {"width", Value(48)}}));
  ASSERT_TRUE(network);
  EXPECT_EQ(network->output(), (Shape{5, 64, 48}));
  expect_parameter(*network, "bottom.conv2.weight", {256, 256, 3, 3});
  expect_parameter(*network, "grow3.conv.weight", {128, 256, 1, 1});
  expect_parameter(*network, "up1.conv1.weight", {32, 64, 3, 3});
  const auto transposed = load("unet", table({{"classes", Value(11)}, {"up", Value("transposed")}}));
  ASSERT_TRUE(transposed);
  EXPECT_EQ(trained_parameters(*transposed), 1'927'339);
  expect_parameter(*transposed, "grow3.conv.weight", {256, 128, 2, 2});
  EXPECT_EQ(transposed->output(), (Shape{11, 256, 256}));
  const auto bilinear = load("unet", table({{"up", Value("bilinear")}}));
  ASSERT_TRUE(bilinear);
  EXPECT_EQ(trained_parameters(*bilinear), trained_parameters(*load("unet")));
}

// Counted in PyTorch (UNet of zoo_models.py). The paper's network has 31.0 million parameters, without normalisation.
TEST(Zoo, UNetMayHaveTheDepthOfThePaper) {
  const Value paper = table({{"levels", Value(4)}, {"filters", Value(64)}, {"up", Value("transposed")}});
  const auto network = load("unet", paper);
  ASSERT_TRUE(network);
  EXPECT_EQ(trained_parameters(*network), 31'037'698);
  expect_parameter(*network, "bottom.conv2.weight", {1024, 1024, 3, 3});
  expect_parameter(*network, "grow4.conv.weight", {1024, 512, 2, 2});
  expect_parameter(*network, "up4.conv1.weight", {512, 1024, 3, 3});
  EXPECT_EQ(network->output(), (Shape{2, 256, 256}));
  Diagnostics errors;
  EXPECT_FALSE(load_network((kFolder / "unet.toml").string(), table({{"levels", Value(5)}}), registry(), errors));
  EXPECT_NE(errors.text().find("'middle_5'"), std::string::npos) << errors.text();
}

TEST(Zoo, EveryShippedNetworkLoads) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    if (file.path().extension() != ".toml") continue;
    EXPECT_TRUE(load(file.path().stem().string())) << file.path();
    ++count;
  }
  EXPECT_GE(count, 37);
}

}  // namespace
}  // namespace millrace::zoo_test
