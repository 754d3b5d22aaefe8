// Layers with several outputs: a portable one on each backend compared with an equal network of layers with one output.
#include <gtest/gtest.h>

#include "millrace/layer.h"
#include "replicas.h"

namespace millrace::conformance {
namespace {

struct Above {
  MILLRACE_KERNEL float operator()(float x) const { return x > 0 ? x : 0; }
};
struct Below {
  MILLRACE_KERNEL float operator()(float x) const { return x > 0 ? 0 : -x; }
};
struct SignsGradient {
  MILLRACE_KERNEL float operator()(float x, float d_above, float d_below) const { return x > 0 ? d_above : -d_below; }
};

// max(x, 0) and max(-x, 0): the two halves of CReLU, Shang et al. 2016, arXiv 1603.05201.
class Signs : public PortableLayer {
 public:
  struct Params {};
  static void describe(LayerDescription<Params>& d) {
    d.name("signs").text("max(x, 0) and max(-x, 0).").outputs({"above", "below"}).example("", {{8, 5, 7}});
  }
  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    LayerPlan plan;
    plan.output = inputs[0];
    plan.more_outputs = {inputs[0]};
    return plan;
  }
  void forward(Pass& pass) const override {
    pass.each(Above(), pass.in(), pass.out(0));
    pass.each(Below(), pass.in(), pass.out(1));
  }
  void backward(Pass& pass) const override { pass.each(SignsGradient(), pass.in(), pass.d_out(0), pass.d_out(1), pass.d_in()); }
};

constexpr const char* kBegin =
    "input = { channels = 3, height = 6, width = 5 }\nlayers = [ { op = \"conv\", out = 20, kernel = 3 },\n";
constexpr const char* kEnd =
    "{ op = \"conv\", out = 8, kernel = 1 }, { op = \"global_average_pool\" }, { op = \"linear\", out = 5 } ]\n";

class Ports : public InPrecision<bool> {
 protected:
  Ports() { registry_.add_layer<Signs>(); }
  // Logits and gradients of a training pass.
  std::vector<float> results(const std::string& layers) const {
    const auto [backend, precision, recompute] = GetParam();
    const auto network = testkit::network_from_text(kBegin + layers + kEnd, registry_);
    return conformance::results(*network, *compile(backend, *network, precision, recompute).replica, batch_of(*network));
  }
  Registry registry_;
};

TEST_P(Ports, OfAPortableLayerAreValuesLikeAnyOther) {
  const std::vector<float> one = results(
      R"({ name = "above", op = "relu", from = "conv1" }, { name = "minus", op = "scale", factor = -1.0, from = "conv1" },
         { name = "below", op = "relu", from = "minus" }, { op = "concat", from = ["below", "above"] },)");
  const std::vector<float> several =
      results(R"({ name = "signs", op = "signs" }, { op = "concat", from = ["signs:below", "signs"] },)");
  ASSERT_EQ(several.size(), one.size());
  EXPECT_LT(difference(several, one), std::get<1>(GetParam()) == Precision::bf16 ? 2e-2 : 1e-5);
}

TEST_P(Ports, OfASplitTakeTheirChannels) {
  const std::vector<float> whole = results("{ name = \"same\", op = \"scale\" },");
  const std::vector<float> joined =
      results(R"({ name = "split", op = "split", channels = 7 }, { op = "concat", from = ["split:first", "split:second"] },)");
  EXPECT_EQ(joined, whole);
}

INSTANTIATE_TEST_SUITE_P(Backends, Ports,
                         testing::Combine(testing::Values("cpu", "simulated"), testing::Values(Precision::fp32, Precision::bf16),
                                          testing::Bool()));

}  // namespace
}  // namespace millrace::conformance
