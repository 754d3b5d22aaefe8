#include "millrace/detail/types.h"
#include "network/native_layers.h"

namespace millrace {

void register_native_layers(Registry& registry) {
  for (LayerType (*type)() :
       {ops::conv_type, ops::transposed_conv_type, ops::linear_type, ops::batch_norm_type, ops::lrn_type, ops::max_pool_type,
        ops::average_pool_type, ops::global_average_pool_type, ops::relu_type, ops::gelu_type, ops::dropout_type,
        ops::stochastic_depth_type, ops::scale_type, ops::flatten_type, ops::add_type, ops::concat_type, ops::split_type}) {
    registry.add(type());
  }
}

}  // namespace millrace
