// Keys for parameters that plugins' layers support without their author's help.
#include <gtest/gtest.h>

#include <algorithm>

#include "millrace/layer.h"
#include "network/language_fixture.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

// Trains a weight and a bias per channel, and a table of numbers.
class Trained : public PortableLayer {
 public:
  struct Params {
    double initial = 0.5;
    std::int64_t numbers = 4;
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("trained").text("A layer with parameters.").example("numbers = 2", {{8, 5, 7}});
    d.params.add("initial", &Params::initial).text("first value of the weights");
    d.params.add("numbers", &Params::numbers).required().range(1).text("in each row of the table");
  }
  explicit Trained(const Params& params) : params_(params) {}
  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    LayerPlan plan;
    plan.output = inputs[0];
    const Shape channels = {inputs[0][0]};
    plan.parameters.push_back({.name = "weight", .shape = channels, .initialiser = {"constant", params_.initial}});
    plan.parameters.push_back({.name = "bias", .shape = channels, .initialiser = {}});
    plan.parameters.push_back({.name = "table", .shape = {inputs[0][0], params_.numbers}, .initialiser = {}, .rate_factor = 0.5});
    plan.parameters.push_back({.name = "seen", .shape = channels, .initialiser = {}, .trainable = false, .statistic = true});
    return plan;
  }
  void forward(Pass&) const override {}
  void backward(Pass&) const override {}

 private:
  const Params params_;
};

// Its `trainable` has another meaning, and it has no bias.
class OwnKey : public PortableLayer {
 public:
  struct Params {
    std::int64_t trainable = 3;
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("own_key").text("A layer with a key of its own.").example("", {{8, 5, 7}});
    d.params.add("trainable", &Params::trainable).text("a number");
  }
  explicit OwnKey(const Params& params) : count_(params.trainable) {}
  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    LayerPlan plan;
    plan.output = inputs[0];
    plan.parameters.push_back({.name = "weight", .shape = {count_}, .initialiser = {}});
    return plan;
  }
  void forward(Pass&) const override {}
  void backward(Pass&) const override {}

 private:
  const std::int64_t count_;
};

class Unweighted : public PortableLayer {
 public:
  struct Params {};
  static void describe(LayerDescription<Params>& d) { d.name("plain").text("A layer without parameters.").example("", {{3}}); }
  void forward(Pass&) const override {}
  void backward(Pass&) const override {}
};

class ParameterKeys : public language_test::NetworkLanguage {
 protected:
  ParameterKeys() {
    registry_.add_layer<Trained>();
    registry_.add_layer<OwnKey>();
    registry_.add_layer<Unweighted>();
  }
  // A network with this layer and a classifier.
  std::shared_ptr<const Network> with(const std::string& keys) {
    return good("layers = [ { name = \"x\", " + keys + " }, { op = \"linear\", out = 2 } ]");
  }
  static const Parameter& named(const Network& network, const std::string& name) {
    return network.parameters.at(static_cast<std::size_t>(network.find_parameter(name)));
  }
};

TEST_F(ParameterKeys, ALayerOfAPluginTakesThoseOfConvolutions) {
  const auto network = with(
      "op = \"trained\", numbers = 3, initialiser = { rule = \"normal\", value = 0.25 }, rate_factor = 3, decay_factor = 0, "
      "bias_initialiser = 7, bias_trainable = false, bias_rate_factor = 2, bias_decay_factor = 0.5");
  const Parameter &weight = named(*network, "x.weight"), &bias = named(*network, "x.bias"), &numbers = named(*network, "x.table");
  EXPECT_EQ(weight.initialiser.rule, "normal");
  EXPECT_EQ(weight.initialiser.value, 0.25);
  EXPECT_EQ(weight.rate_factor, 3);
  EXPECT_EQ(weight.decay_factor, 0);
  EXPECT_TRUE(weight.trainable);
  EXPECT_EQ(numbers.rate_factor, 1.5) << "the layer's own factor stays";
  EXPECT_EQ(bias.initialiser.rule, "constant");
  EXPECT_EQ(bias.initialiser.value, 7);
  EXPECT_EQ(bias.rate_factor, 2);
  EXPECT_EQ(bias.decay_factor, 0.5);
  EXPECT_FALSE(bias.trainable);
  const Parameter& seen = named(*network, "x.seen");
  EXPECT_EQ(seen.initialiser.value, 0) << "a statistic is not initialised as weights are";
  EXPECT_EQ(seen.rate_factor, 1);
}

TEST_F(ParameterKeys, WithoutThemTheLayerSaysWhatItsParametersAre) {
  const auto network = with("op = \"trained\", numbers = 3, initial = 0.125");
  EXPECT_EQ(named(*network, "x.weight").initialiser.value, 0.125);
  EXPECT_EQ(named(*network, "x.weight").rate_factor, 1);
  EXPECT_EQ(named(*network, "x.table").rate_factor, 0.5);
  EXPECT_TRUE(named(*network, "x.bias").trainable);
  EXPECT_FALSE(named(*with("op = \"trained\", numbers = 3, trainable = false"), "x.table").trainable);
}

TEST_F(ParameterKeys, ATypeListsThemWithTheirDefaults) {
  const auto count = [this](const char* type, std::string_view key) {
    return std::ranges::count(registry_.layers().find(type)->params, key, &ParamInfo::name);
  };
  for (const char* key : {"initialiser", "bias_initialiser", "trainable", "bias_trainable", "rate_factor", "bias_rate_factor",
                          "decay_factor", "bias_decay_factor"}) {
    EXPECT_EQ(count("trained", key), 1) << key;
    EXPECT_EQ(count("conv", key), 1) << key;
    EXPECT_EQ(count("plain", key), 0) << key;
  }
  EXPECT_EQ(registry_.layers().find("trained")->defaults.find("bias_rate_factor")->number(), 1);
  EXPECT_EQ(count("own_key", "rate_factor"), 1);
  EXPECT_EQ(count("own_key", "bias_rate_factor"), 0) << "it has no bias";
}

TEST_F(ParameterKeys, AKeyThatTheTypeHasByItselfStaysTheTypes) {
  const auto network = with("op = \"own_key\", trainable = 5, rate_factor = 2");
  const Parameter& weight = named(*network, "x.weight");
  EXPECT_EQ(weight.shape, Shape{5});
  EXPECT_TRUE(weight.trainable);
  EXPECT_EQ(weight.rate_factor, 2);
}

TEST_F(ParameterKeys, MistakesAreNamedAsThoseOfConvolutionsAre) {
  const auto said = [this](const std::string& keys) {
    return mistakes("layers = [ { name = \"x\", " + keys + " }, { op = \"linear\", out = 2 } ]");
  };
  EXPECT_MESSAGE(said("op = \"trained\", numbers = 3, rate_facto = 2"));
  EXPECT_MESSAGE(said("op = \"trained\", numbers = 3, rate_factor = -1"));
  EXPECT_NE(said("op = \"trained\", numbers = 3, initialiser = \"he_normal\"").find("a vector takes constant"),
            std::string::npos);
  EXPECT_MESSAGE(said("op = \"trained\""));
  EXPECT_MESSAGE(said("op = \"plain\", rate_factor = 2"));
}

}  // namespace
}  // namespace millrace
