// Layers of a network whose output no layer reads.
#include <gtest/gtest.h>

#include "millrace/backend/fusion.h"
#include "network/load.h"
#include "testkit/messages.h"
#include "toml/document.h"

namespace millrace {
namespace {

constexpr const char* kInput = "input = { channels = 3, height = 8, width = 8 }\n";
constexpr const char* kHead = "\n[block.head]\nlayers = [ { op = \"relu\" }, { op = \"linear\", out = 3 } ]";

class AuxiliaryLayers : public testing::Test {
 protected:
  std::shared_ptr<const Network> build(const std::string& toml) {
    errors_ = {};
    const auto document = parse_toml(kInput + toml, "net.toml", errors_);
    return document ? build_network(*document, "net", Value(), registry_, errors_) : nullptr;
  }
  std::string mistakes(const std::string& toml) {
    EXPECT_EQ(build(toml), nullptr);
    return errors_.text();
  }

  Registry registry_;
  Diagnostics errors_;
};

TEST_F(AuxiliaryLayers, StandBesideTheOthers) {
  const auto network = build(std::string(R"(layers = [
    { name = "stem", op = "relu" }, { name = "aux", block = "head", auxiliary = true }, { name = "body", op = "relu" },
    { name = "fc", op = "linear", out = 2 } ])") +
                             kHead);
  ASSERT_TRUE(network) << errors_.text();
  std::vector<std::string> names;
  for (const Layer& layer : network->layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"stem", "aux.relu1", "aux.linear1", "body", "fc"}));
  EXPECT_EQ(network->layers[3].inputs, (std::vector<LayerPort>{0})) << "the entry after it takes what the one before gives";
  const LayerPort side(2);
  EXPECT_EQ(layers_for(*network, {}), (std::vector<bool>{true, false, false, true, true}));
  EXPECT_EQ(layers_for(*network, {&side, 1}), std::vector<bool>(5, true));
  EXPECT_EQ(fuse(*network, {.backend = "test"}).size(), 3U);
  EXPECT_EQ(fuse(*network, {.backend = "test", .outputs = {side}}).size(), 5U);
}

TEST_F(AuxiliaryLayers, MayBeLeftOut) {
  const auto network =
      build(R"(layers = [ { name = "aux", op = "relu", auxiliary = true, when = false }, { name = "b", op = "relu" } ])");
  ASSERT_TRUE(network) << errors_.text();
  EXPECT_EQ(network->layers.size(), 1U);
}

TEST_F(AuxiliaryLayers, HaveTheirMistakes) {
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "a", op = "relu", auxiliary = false }, { op = "relu", from = "@input" } ])"));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { op = "relu" }, { name = "aux", op = "relu", auxiliary = true } ])"));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { op = "relu" }, { op = "relu", auxiliary = 1 }, { op = "relu" } ])"));
}

}  // namespace
}  // namespace millrace
