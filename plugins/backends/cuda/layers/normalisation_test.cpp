// When a max pooling is fused with the batch normalisation before it, and when it is not.
#include <gtest/gtest.h>

#include "millrace/backend/fusion.h"
#include "testkit/networks.h"

namespace millrace::cuda {
namespace {

std::vector<Node> nodes_of(const std::string& layers, const std::vector<std::string>& read = {}) {
  const auto network =
      testkit::network_from_text("input = { channels = 3, height = 40, width = 40 }\nlayers = [" + layers +
                                 ", { op = \"global_average_pool\" }, { name = \"fc\", op = \"linear\", out = 4 } ]");
  FusionOptions options{.backend = "cuda", .pool_behind_relu = true};
  for (int index = 0; index < static_cast<int>(network->layers.size()); ++index) {
    for (const std::string& name : read) {
      if (network->layers[static_cast<std::size_t>(index)].name == name) options.outputs.push_back(index);
    }
  }
  return fuse(*network, options);
}

constexpr const char* kStem =
    R"({ op = "conv", out = 8, kernel = 3, bias = false }, { op = "batch_norm" }, { name = "r", op = "relu" }, )"
    R"({ name = "p", op = "max_pool", kernel = 3, stride = 2, padding = 1 })";

TEST(PoolBehindNormalisation, IsTakenInBehindARelu) {
  const std::vector<Node> nodes = nodes_of(kStem);
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[1].kind, Node::Kind::normalise);
  EXPECT_EQ(nodes[1].pool_behind, 3);
  EXPECT_EQ(nodes[1].output, 3);
  EXPECT_EQ(nodes_of(kStem, {"p"}).size(), 4U) << "its result may be read";
}

TEST(PoolBehindNormalisation, IsLeftAloneElsewhere) {
  EXPECT_EQ(nodes_of(kStem, {"r"}).size(), 5U) << "the ReLU's result is read";
  const std::string conv =
      R"({ name = "c", op = "conv", out = 8, kernel = 3, padding = 1, bias = false }, { name = "b", op = "batch_norm" }, )";
  for (const char* rest : {
           R"({ op = "gelu" }, { op = "max_pool", kernel = 2 })",
           R"({ op = "relu" }, { op = "average_pool", kernel = 2 })",
           R"({ op = "relu" }, { op = "max_pool", kernel = 17 })",  // more positions than a byte can hold
           R"({ op = "max_pool", kernel = 2 })",
           R"({ op = "add", from = ["b", "c"] }, { op = "relu" }, { op = "max_pool", kernel = 2 })",
       }) {
    for (const Node& node : nodes_of(conv + rest)) EXPECT_EQ(node.pool_behind, -1) << rest;
  }
}

}  // namespace
}  // namespace millrace::cuda
