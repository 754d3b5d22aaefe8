// The layers that backends compute with kernels of their own, using libraries where available. Each type is defined in the file
// of its name; layers with portable kernels are in plugins/layers.
#pragma once

#include "millrace/detail/types.h"
#include "millrace/plugin.h"

namespace millrace {

void register_native_layers(Registry& registry);  // called by the registry's constructor

namespace ops {

LayerType conv_type();
LayerType transposed_conv_type();
LayerType linear_type();
LayerType batch_norm_type();
LayerType lrn_type();
LayerType max_pool_type();
LayerType average_pool_type();
LayerType global_average_pool_type();
LayerType relu_type();
LayerType gelu_type();
LayerType dropout_type();
LayerType stochastic_depth_type();
LayerType scale_type();
LayerType flatten_type();
LayerType add_type();
LayerType concat_type();
LayerType split_type();

}  // namespace ops
}  // namespace millrace
