// Keys of every layer with trained parameters, built-in or not: initialisers of weights and biases, whether they are trained, and
// their factors for rate and decay.
#pragma once

#include "millrace/backend/network.h"
#include "millrace/detail/types.h"

namespace millrace {

// Adds the keys of ops::WeightParams to a layer type whose examples have trained parameters. `bias_` keys apply to a parameter
// named "bias", the others to all others. Keys that the type declares itself stay its own.
LayerType with_parameter_keys(LayerType type);

}  // namespace millrace
