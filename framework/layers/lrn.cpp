// Local response normalisation, Krizhevsky et al. 2012.
#include <cmath>
#include <limits>

#include "layers/definition.h"
#include "layers/native_layers.h"
#include "millrace/detail/types.h"

namespace millrace::ops {
namespace {

void describe_lrn(ParamSet<LrnAttributes>& set) {
  set.add("size", &LrnAttributes::size).range(1, 4095).unit("channels").text("odd number of channels summed around each");
  set.add("alpha", &LrnAttributes::alpha).range(0).text("factor on the sum of squares");
  set.add("beta", &LrnAttributes::beta).range(0).text("exponent");
  set.add("k", &LrnAttributes::k).range(0).text("added to the scaled sum; above 0");
}

// Where a map is 0, values are divided by k^beta, and gradients by k^(beta + 1).
void require_finite_quotients(const LrnAttributes& params) {
  if (static_cast<float>(params.k) == 0) fail(ErrorKind::usage, "'k' must be above 0, found {}", params.k);
  if (std::pow(params.k, -(params.beta + 1)) <= static_cast<double>(std::numeric_limits<float>::max())) return;
  fail(ErrorKind::usage, "'k' = {} is too close to 0 for 'beta' = {}: where a map is 0, gradients would be infinite", params.k,
       params.beta);
}

LayerPlan infer_lrn(const LrnAttributes& params, const std::vector<Shape>& inputs) {
  require_maps(inputs[0]);
  // The window is centred on its channel. Libraries disagree about the side on which an even window has one channel more.
  if (params.size % 2 == 0) {
    fail(ErrorKind::usage, "'size' must be an odd number of channels, found {}: take {} or {}", params.size, params.size - 1,
         params.size + 1);
  }
  require_finite_quotients(params);
  LayerPlan plan;
  plan.output = inputs[0];
  plan.attributes = attributes(params);
  return plan;
}

void write_lrn(OnnxLayer& onnx) {
  const auto& lrn = onnx.layer().as<LrnAttributes>();
  onnx.output(onnx.add("LRN", {onnx.input()},
                       {{"size", lrn.size},
                        {"alpha", static_cast<float>(lrn.alpha)},
                        {"beta", static_cast<float>(lrn.beta)},
                        {"bias", static_cast<float>(lrn.k)}}));
}

}  // namespace

LayerType lrn_type() {
  return make_layer_type<LrnAttributes>(
      {.name = "lrn",
       .text = "Local response normalisation across neighbouring channels.",
       .examples = {{"alpha = 0.1", {{20, 4, 5}}}, {"size = 3\nalpha = 0.5\nbeta = 0.5\nk = 2", {{7, 3, 3}}}},
       .describe = describe_lrn,
       .infer = infer_lrn,
       .write_onnx = write_lrn});
}

}  // namespace millrace::ops
