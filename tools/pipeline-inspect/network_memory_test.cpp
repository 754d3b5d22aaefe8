#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "inspect.h"
#include "millrace/util/load_plugins.h"
#include "network/load.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

// The numbers after the name of a row: of a training step, then of inference.
std::vector<double> mebibytes(const std::string& text, const std::string& row) {
  const std::size_t at = text.find(row + "  ");
  if (at == std::string::npos) return {};
  std::vector<double> found;
  std::istringstream line(text.substr(at + row.size(), text.find('\n', at) - at - row.size()));
  std::string unit;
  for (double figure = 0; line >> figure >> unit;) found.push_back(unit == "GiB" ? 1024 * figure : figure);
  return found;
}

TEST(InspectMemory, IsWhatTheBackendPlansForTheBatch) {
  Registry registry;
  for (const char* plugin : {"/cpu.so", "/optimizers.so", "/losses.so"})
    load_plugin(registry, std::string(MILLRACE_PLUGINS) + plugin);
  Diagnostics errors;
  const auto network = load_network(MILLRACE_SOURCE_DIR "/pipelines/networks/cifar10_conv.toml", Value(), registry, errors);
  ASSERT_EQ(errors.text(), "");
  const std::string many = describe_memory(*network, registry, 64);
  EXPECT_NE(many.find("memory on backend cpu, in float32, for a batch of 64"), std::string::npos) << many;
  const std::vector<double> weights = mebibytes(many, "weights"), gradients = mebibytes(many, "gradients of weights");
  ASSERT_EQ(weights.size(), 2U) << many;
  EXPECT_NEAR(weights[0], 2'714'024.0 / (1 << 20), 0.1);
  EXPECT_EQ(weights[0], weights[1]);
  ASSERT_EQ(gradients.size(), 1U) << "inference has none:\n" << many;
  EXPECT_NEAR(gradients[0], 676'714 * 4.0 / (1 << 20), 0.1);
  EXPECT_EQ(mebibytes(many, "momentum of weights").size(), 1U) << many;
  const auto activations = [&](const std::string& of) { return mebibytes(of, "activations and their gradients"); };
  const std::vector<double> large = activations(many);
  ASSERT_EQ(large.size(), 2U) << many;
  // Small batches need scratch memory of constant size, which differs between processors.
  const std::string some = describe_memory(*network, registry, 640), most = describe_memory(*network, registry, 6400);
  EXPECT_GT(activations(most).at(0), 8 * activations(some).at(0)) << some << most;
  EXPECT_GT(large[0], 2 * large[1]) << "training keeps what backward reads";
  const std::vector<double> all = mebibytes(many, "in all");
  ASSERT_EQ(all.size(), 2U) << many;
  EXPECT_GT(all[0], weights[0] + gradients[0] + large[0]);
  EXPECT_NEAR(all[1], weights[1] + large[1], 0.3);
}

TEST(InspectMemory, SaysWhyThereIsNoPlan) {
  const Registry registry;
  Diagnostics errors;
  const auto network = load_network(MILLRACE_SOURCE_DIR "/pipelines/networks/cifar10_conv.toml", Value(), registry, errors);
  ASSERT_EQ(errors.text(), "");
  EXPECT_MESSAGE(describe_memory(*network, registry, 1));
}

}  // namespace
}  // namespace millrace
