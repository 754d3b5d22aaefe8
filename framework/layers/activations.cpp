// relu and gelu.
#include "layers/definition.h"
#include "layers/native_layers.h"
#include "millrace/detail/types.h"

namespace millrace::ops {

LayerType relu_type() {
  return make_layer_type(
      PlainDefinition{.name = "relu", .text = "max(x, 0).", .examples = {{"", {{8, 5, 7}}}, {"", {{9}}}}, .infer = same_shape});
}

LayerType gelu_type() {
  return make_layer_type(
      PlainDefinition{.name = "gelu",
                      .text = "x times the normal distribution's cumulative function of x (exact, through erf).",
                      .examples = {{"", {{8, 5, 7}}}, {"", {{9}}}},
                      .infer = same_shape});
}

}  // namespace millrace::ops
