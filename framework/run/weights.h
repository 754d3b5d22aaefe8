// Weights into replicas and out of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/backend.h"
#include "millrace/network.h"

namespace millrace {

// Values of every parameter, in the network's order.
using Weights = std::vector<std::vector<float>>;

void write_weights(const std::vector<std::unique_ptr<Replica>>& replicas, const Weights& weights);  // the same to all

// From and to safetensors, by parameter names. Reading wants every parameter of the network with its shape and names what is
// missing, superfluous or of another shape, all in one message.
Weights load_weights(const std::string& path, const Network& network);
void save_weights_file(const std::string& path, const Network& network, Replica& replica);

}  // namespace millrace
