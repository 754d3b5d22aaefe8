// The layer types that the framework knows by itself. Others come from plugins through the same Registry::add().
#pragma once

#include "millrace/plugin.h"

namespace millrace {

// conv, transposed_conv, linear, batch_norm, lrn, relu, gelu, dropout, stochastic_depth, scale, flatten, add, concat, split,
// max_pool, average_pool, global_average_pool. Called by the Registry's constructor.
void register_layers(Registry& registry);

}  // namespace millrace
