// Weights into replicas and out of them.
#pragma once

#include <map>
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
void save_weights_file(const std::string& path, const Network& network, Replica& replica,
                       const std::map<std::string, std::string>& plans = {});

// What the replicas' backends have chosen (Replica::plans()), by device and replica: metadata of the file of weights, so that a run that
// starts from it computes as the one that wrote it did.
std::map<std::string, std::string> plans_of(const std::vector<std::unique_ptr<Replica>>& replicas,
                                            const std::vector<std::unique_ptr<Device>>& devices);
// Those for this replica's device: its own; else another replica's of the same model; else any for its backend, which will say what
// differs; else "".
std::string plans_for(const DeviceInfo& device, std::size_t replica, const std::map<std::string, std::string>& metadata);

}  // namespace millrace
