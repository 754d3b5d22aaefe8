// Whole training steps of shipped networks: the device compared with the CPU backend.
#include <fstream>
#include <iterator>

#include "agreement.h"
#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "testkit/networks.h"

namespace millrace::gpu {
namespace {

// Batches hold images; residual_block.toml, which starts in the middle of a network, gets a 1x1 conv in front.
std::shared_ptr<const Network> load(const std::string& name, const Registry& registry) {
  const std::string path = pipelines_folder() + "/networks/" + name + ".toml";
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto replace = [&](const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    if (at != std::string::npos) text.replace(at, from.size(), to);
    return at != std::string::npos;
  };
  if (!replace("channels = 16", "channels = 3")) return testkit::network_from_file(path, registry);
  replace("layers   = [", R"(layers = [ { name = "stem", op = "conv", out = 16, kernel = 1 },)") ||
      replace("layers = [", R"(layers = [ { name = "stem", op = "conv", out = 16, kernel = 1 },)");
  return testkit::network_from_text(text, registry);
}

class GpuNetworks : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  // Networks for photographs hold up to half a gigabyte of weights: fewer images and steps for those.
  Comparison comparison(std::uint32_t batch, int steps, int steps_if_large) {
    const auto network = load(GetParam(), registry());
    const bool large = network->input.height > 100;
    return {network, {.batch = large ? 4U : batch, .steps = large ? steps_if_large : steps, .rate = 1e-3}, 11};
  }

  void expect_agreement(Precision precision) {
    Comparison compared = comparison(32, 2, 1);
    Outcome found;
    try {
      found = compared.train(device(), {.precision = precision});
    } catch (const Error& error) {
      if (on_gpu() || precision == Precision::fp32) throw;
      GTEST_SKIP() << to_string(precision) << " on this processor: " << error.what();
    }
    compared.expect_like_oracle(found, oracle(), precision, false);
  }
};

TEST_P(GpuNetworks, AgreeInFloat32) { expect_agreement(Precision::fp32); }
TEST_P(GpuNetworks, AgreeInTf32) { expect_agreement(Precision::tf32); }
TEST_P(GpuNetworks, AgreeInBf16) { expect_agreement(Precision::bf16); }

// Results of training must not depend on thread timing, on replaying a step from a recording, or on keeping activations.
TEST_P(GpuNetworks, TrainToTheSameBitsInEveryWay) {
  const Comparison compared = comparison(16, 4, 3);
  const Outcome first = compared.train(device(), {.graphs = true});
  const auto expect_same = [&](const CompileOptions& options, const char* what) {
    const Outcome other = compared.train(device(), options);
    EXPECT_EQ(first.loss, other.loss) << what;
    EXPECT_TRUE(first.values == other.values) << what << ": differs by " << relative_difference(other.values, first.values);
  };
  expect_same({.graphs = true}, "once more");
  expect_same({.graphs = false}, "without graphs");
}

TEST_P(GpuNetworks, TrainToTheSameBitsInBf16) {
  if (!on_gpu()) GTEST_SKIP() << "this processor may have no bf16";
  const Comparison compared = comparison(16, 4, 3);
  const Outcome first = compared.train(device(), {.precision = Precision::bf16, .graphs = true});
  const Outcome other = compared.train(device(), {.precision = Precision::bf16, .graphs = false});
  EXPECT_TRUE(first.values == other.values) << "differs by " << relative_difference(other.values, first.values);
}

// One of each kind: a visit to a GPU is too short for the whole zoo.
INSTANTIATE_TEST_SUITE_P(Shipped, GpuNetworks,
                         testing::Values("airbench94", "alexnet", "cifar10_conv", "quickstart", "residual_block", "resnet18",
                                         "resnet50", "vgg16"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace millrace::gpu
