// Layers with several outputs in the network language.
#include "millrace/detail/types.h"
#include "millrace/layer.h"
#include "network/language_fixture.h"

#include "testkit/messages.h"

namespace millrace::language_test {
namespace {

TEST_F(NetworkLanguage, OutputsBehindTheFirstAreTakenByName) {
  const auto network = good(R"(layers = [
    { name = "parts", op = "split", channels = 1 }, { name = "wide", op = "conv", out = 1, kernel = 1, from = "parts:second" },
    { op = "add", from = ["parts:first", "wide"] }, { op = "linear", out = 2 } ])");
  EXPECT_EQ(network->layers[0].output, (Shape{1, 8, 8}));
  EXPECT_EQ(network->layers[0].more_outputs, (std::vector<Shape>{{2, 8, 8}}));
  EXPECT_EQ(network->layers[1].inputs, (std::vector<LayerPort>{{0, 1}}));
  EXPECT_EQ(network->layers[1].input_shapes[0], (Shape{2, 8, 8}));
  EXPECT_EQ(network->layers[2].inputs, (std::vector<LayerPort>{{0, 0}, {1, 0}}));
}

TEST_F(NetworkLanguage, OutputsHaveTheirMistakesToo) {
  EXPECT_MESSAGE(
      mistakes("layers = [ { name = \"parts\", op = \"split\", channels = 1 }, { op = \"relu\", from = \"parts:third\" } ]"));
  EXPECT_MESSAGE(mistakes("layers = [ { name = \"parts\", op = \"split\", channels = 1 }, { op = \"linear\", out = 2 } ]"));
  EXPECT_MESSAGE(mistakes("layers = [ { op = \"split\" }, { op = \"linear\", out = 2 } ]"));
}

TEST_F(NetworkLanguage, IndicesGoWhereTheyAreTakenAndMayBeLeftUnread) {
  LayerType pool;
  pool.name = "pool";
  pool.examples = {{"", {{3, 8, 8}}}};
  pool.outputs = {{"largest"}, {"places", Carries::indices}};
  pool.plan = [](const Value&, const std::vector<Shape>& inputs, Diagnostics&) {
    LayerPlan plan;
    if (!inputs.empty()) plan.output = plan.more_outputs.emplace_back(inputs[0]);
    return plan;
  };
  registry_.add(pool);
  LayerType unpool = pool;
  unpool.name = "unpool";
  unpool.least_inputs = unpool.most_inputs = 2;
  unpool.takes = {Carries::values, Carries::indices};
  unpool.outputs = {{"out"}};
  unpool.plan = [](const Value&, const std::vector<Shape>& inputs, Diagnostics&) {
    LayerPlan plan;
    if (!inputs.empty()) plan.output = inputs[0];
    return plan;
  };
  registry_.add(unpool);
  good("layers = [ { op = \"pool\" }, { op = \"linear\", out = 2 } ]");
  good("layers = [ { op = \"pool\" }, { op = \"unpool\", from = [\"pool1\", \"pool1:places\"] }, { op = \"linear\", out = 2 } ]");
  EXPECT_MESSAGE(mistakes("layers = [ { op = \"pool\" }, { op = \"unpool\", from = [\"pool1\", \"pool1\"] } ]"));
  EXPECT_MESSAGE(mistakes("layers = [ { op = \"pool\" }, { op = \"relu\", from = \"pool1:places\" } ]"));
}

struct Product {
  MILLRACE_KERNEL float operator()(float x, float y) const { return x * y; }
};

class Gate : public PortableLayer {
 public:
  struct Params {};
  static void describe(LayerDescription<Params>& d) { d.name("gate").text("Forgets a tensor.").example("", {{8, 5, 7}}); }
  void forward(Pass& pass) const override { pass.each(Product(), pass.in(), pass.in(), pass.out()); }
  void backward(Pass& pass) const override { pass.each(Product(), pass.d_out(), pass.d_in()); }
};

TEST_F(NetworkLanguage, AKernelThatIsCalledWronglyIsNamedWhereItsLayerStands) {
  registry_.add_layer<Gate>();
  const std::string said = mistakes("layers = [ { op = \"gate\" }, { op = \"linear\", out = 2 } ]");
  EXPECT_MESSAGE(said, {{"{anonymous}", "ANONYMOUS"}, {"(anonymous namespace)", "ANONYMOUS"}});
}

}  // namespace
}  // namespace millrace::language_test
