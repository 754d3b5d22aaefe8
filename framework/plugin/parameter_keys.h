// Keys that every layer with trained parameters takes, ours and others: the first values of its weights and biases, whether they
// are trained, and their factors of rate and decay.
#pragma once

#include "millrace/backend/network.h"
#include "millrace/detail/types.h"

namespace millrace {

// The layer type with the keys of ops::WeightParams, where the layers of its examples have parameters that are trained. The
// `bias_` keys count for a parameter named "bias", the others for all others. A key that the type has by itself stays the type's.
LayerType with_parameter_keys(LayerType type);

}  // namespace millrace
