#include "run/weights.h"

#include <fmt/format.h>

#include <map>

#include "millrace/error.h"
#include "network/safetensors.h"

namespace millrace {

void write_weights(const std::vector<std::unique_ptr<Replica>>& replicas, const Weights& weights) {
  for (const auto& replica : replicas) {
    for (std::size_t p = 0; p < weights.size(); ++p) replica->write(Slot::value, static_cast<int>(p), weights[p]);
  }
}

Weights load_weights(const std::string& path, const Network& network) {
  std::map<std::string, NamedTensor> tensors;
  TensorFile file = read_safetensors(path);
  for (NamedTensor& tensor : file.tensors) tensors.emplace(tensor.name, std::move(tensor));
  Weights weights;
  std::string wrong;
  for (const Parameter& parameter : network.parameters) {
    const auto found = tensors.find(parameter.name);
    if (found == tensors.end()) {
      wrong += fmt::format("\n  '{}' ({}) is missing", parameter.name, to_string(parameter.shape));
      continue;
    }
    if (!(found->second.shape == parameter.shape)) {
      wrong += fmt::format("\n  '{}' is {}, the network wants {}", parameter.name, to_string(found->second.shape),
                           to_string(parameter.shape));
    }
    weights.push_back(std::move(found->second.values));
    tensors.erase(found);
  }
  for (const auto& [name, tensor] : tensors) {
    wrong += fmt::format("\n  '{}' ({}) belongs to no layer", name, to_string(tensor.shape));
  }
  if (!wrong.empty()) fail(ErrorKind::usage, "'{}' does not fit network '{}':{}", path, network.name, wrong);
  return weights;
}

void save_weights_file(const std::string& path, const Network& network, Replica& replica,
                       const std::map<std::string, std::string>& plans) {
  std::vector<NamedTensor> tensors;
  for (std::size_t p = 0; p < network.parameters.size(); ++p) {
    const Parameter& parameter = network.parameters[p];
    tensors.push_back({parameter.name, parameter.shape, replica.read(Slot::value, static_cast<int>(p))});
  }
  std::map<std::string, std::string> metadata = plans;
  metadata["format"] = "pt";
  metadata["network"] = network.name;
  write_safetensors(path, tensors, metadata);
}

namespace {

std::string plans_key(const DeviceInfo& device) { return fmt::format("plans of {}: ", device.backend); }

}  // namespace

std::map<std::string, std::string> plans_of(const std::vector<std::unique_ptr<Replica>>& replicas,
                                            const std::vector<std::unique_ptr<Device>>& devices) {
  std::map<std::string, std::string> plans;
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    const DeviceInfo& device = devices[r]->info();
    std::string text = replicas[r]->plans();
    if (!text.empty()) plans.emplace(plans_key(device) + device.name, std::move(text));
  }
  return plans;
}

std::string plans_for(const DeviceInfo& device, const std::map<std::string, std::string>& metadata) {
  const std::string key = plans_key(device);
  if (const auto exact = metadata.find(key + device.name); exact != metadata.end()) return exact->second;
  const auto any = metadata.lower_bound(key);
  return any != metadata.end() && any->first.starts_with(key) ? any->second : std::string();
}

}  // namespace millrace
