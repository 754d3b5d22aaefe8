// Local response normalisation, Krizhevsky et al. 2012.
#include "layers/definition.h"
#include "layers/native_layers.h"
#include "millrace/detail/types.h"

namespace millrace::ops {
namespace {

void describe_lrn(ParamSet<LrnAttributes>& set) {
  set.add("size", &LrnAttributes::size)
      .range(1, 4095)
      .unit("channels")
      .text("neighbouring channels that are summed over: an odd number");
  set.add("alpha", &LrnAttributes::alpha).text("factor of the sum of squares");
  set.add("beta", &LrnAttributes::beta).text("exponent");
  set.add("k", &LrnAttributes::k).text("what the sum is added to");
}

LayerPlan infer_lrn(const LrnAttributes& params, const std::vector<Shape>& inputs) {
  require_maps(inputs[0]);
  // The window lies evenly around its channel. Libraries disagree about the side on which an even one has a channel more.
  if (params.size % 2 == 0) {
    fail(ErrorKind::usage, "'size' must be an odd number of channels, found {}: take {} or {}", params.size, params.size - 1,
         params.size + 1);
  }
  LayerPlan plan;
  plan.output = inputs[0];
  plan.attributes = attributes(params);
  return plan;
}

}  // namespace

LayerType lrn_type() {
  return make_layer_type<LrnAttributes>(
      {.name = "lrn",
       .text = "Local response normalisation across channels, an odd number of them around each.",
       .examples = {{"alpha = 0.1", {{20, 4, 5}}}, {"size = 3\nalpha = 0.5\nbeta = 0.5\nk = 2", {{7, 3, 3}}}},
       .describe = describe_lrn,
       .infer = infer_lrn});
}

}  // namespace millrace::ops
