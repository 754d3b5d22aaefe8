// The keys and shapes of dropout: Srivastava et al. 2014, "Dropout"; for whole channels Tompson et al. 2015, arXiv 1411.4280; for
// whole samples (stochastic depth) Huang et al. 2016, arXiv 1603.09382. Backends compute it: cpu in kernels/dropout.cpp.
#include "millrace/detail/types.h"
#include "network/definition.h"
#include "network/native_layers.h"

namespace millrace::ops {
namespace {

constexpr double kMaxDropped = 0.999;

struct DropoutParams {
  double probability = 0.5;
  std::string drops = "values";
};

LayerPlan infer_dropout(const DropoutParams& params, const std::vector<Shape>& inputs) {
  LayerPlan plan;
  plan.output = inputs[0];
  plan.attributes = attributes(DropoutAttributes{params.probability, params.drops != "samples", params.drops == "values"});
  return plan;
}

struct StochasticDepthParams {
  double probability = 0;
};

LayerPlan infer_stochastic_depth(const StochasticDepthParams& params, const std::vector<Shape>& inputs) {
  return infer_dropout({params.probability, "samples"}, inputs);
}

}  // namespace

LayerType dropout_type() {
  return make_layer_type<DropoutParams>(
      {.name = "dropout",
       .text = "In training, zeroes random values and scales up the others.",
       .examples = {{"", {{8, 5, 7}}},
                    {"probability = 0.3", {{9}}},
                    {"drops = 'channels'", {{20, 3, 4}}},
                    {"drops = 'samples'\nprobability = 0.3", {{8, 5, 7}}}},
       .describe =
           [](ParamSet<DropoutParams>& set) {
             set.add("probability", &DropoutParams::probability).range(0, kMaxDropped).text("probability of zeroing");
             set.add("drops", &DropoutParams::drops)
                 .choices({"values", "channels", "samples"})
                 .text("unit to zero: single values, whole channels of a sample (Dropout2d), or whole samples");
           },
       .infer = infer_dropout,
       .write_onnx = write_onnx_identity});
}

LayerType stochastic_depth_type() {
  return make_layer_type<StochasticDepthParams>({.name = "stochastic_depth",
                                                 .text = "In training, zeroes random whole samples and scales up the others: for "
                                                         "a branch before its addition. Equals dropout with drops = \"samples\".",
                                                 .examples = {{"probability = 0.2", {{8, 5, 7}}}},
                                                 .describe =
                                                     [](ParamSet<StochasticDepthParams>& set) {
                                                       set.add("probability", &StochasticDepthParams::probability)
                                                           .required()
                                                           .range(0, kMaxDropped)
                                                           .text("probability of zeroing a sample");
                                                     },
                                                 .infer = infer_stochastic_depth,
                                                 .write_onnx = write_onnx_identity});
}

}  // namespace millrace::ops
