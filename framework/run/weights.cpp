#include "run/weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "network/safetensors.h"
#include "run/checkpoint.h"

namespace millrace {

std::vector<std::vector<float>> copies_of_all(const std::vector<std::vector<float>>& mine, Group& group) {
  const std::size_t elements = mine.front().size();
  std::vector<float> joined;
  for (const std::vector<float>& copy : mine) joined.insert(joined.end(), copy.begin(), copy.end());
  std::vector<std::vector<float>> all;
  for (const std::vector<std::byte>& bytes : group.all_gather(Group::kRun, std::as_bytes(std::span(joined)))) {
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    for (std::size_t at = 0; at < bytes.size() / sizeof(float); at += elements)
      all.emplace_back(values + at, values + at + elements);
  }
  return all;
}

void write_weights(const std::vector<std::unique_ptr<Replica>>& replicas, const Weights& weights) {
  for (const auto& replica : replicas) {
    for (std::size_t p = 0; p < weights.size(); ++p) replica->write(kValue, static_cast<int>(p), weights[p]);
  }
}

std::vector<float> weighted_mean(const std::vector<std::vector<float>>& copies, std::span<const double> load) {
  std::vector<double> sums(copies.front().size(), 0.0);
  double total = 0;
  for (std::size_t r = 0; r < copies.size(); ++r) {
    const double share = load.empty() ? 1.0 : load[r];
    total += share;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += share * static_cast<double>(copies[r][i]);
  }
  std::vector<float> mean(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) mean[i] = static_cast<float>(sums[i] / total);
  return mean;
}

Weights weights_of(const std::vector<std::unique_ptr<Replica>>& replicas, const Network& network, std::span<const double> load,
                   Group* group) {
  Weights weights;
  for (std::size_t p = 0; p < network.parameters.size(); ++p) {
    std::vector<std::vector<float>> copies;
    for (const auto& replica : replicas) {
      copies.push_back(replica->read(kValue, static_cast<int>(p)));
      if (!network.parameters[p].statistic) break;
    }
    if (group != nullptr && network.parameters[p].statistic) copies = copies_of_all(copies, *group);
    weights.push_back(copies.size() == 1 ? std::move(copies.front()) : weighted_mean(copies, load));
  }
  return weights;
}

void save_weights_file(const std::string& path, const Network& network, Weights weights,
                       const std::map<std::string, std::string>& metadata) {
  WeightsFile(network, std::move(weights), metadata).write(path);
}

WeightsFile::WeightsFile(const Network& network, Weights weights, std::map<std::string, std::string> others)
    : metadata(std::move(others)) {
  for (std::size_t p = 0; p < network.parameters.size(); ++p) {
    const Parameter& parameter = network.parameters[p];
    tensors.push_back({parameter.name, parameter.shape, std::move(weights[p])});
  }
  metadata["format"] = "pt";
  metadata["network"] = network.name;
}

std::string WeightsFile::not_finite() const { return millrace::not_finite(tensors); }

void WeightsFile::write(const std::string& path) const { write_safetensors(path, tensors, metadata); }

std::map<std::string, std::string> metadata_of(const std::vector<std::string>& classes) {
  if (classes.empty()) return {};
  return {{"classes", Json(classes).dump(-1, ' ', false, Json::error_handler_t::replace)}};
}

std::vector<std::string> classes_from(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find("classes");
  if (found == metadata.end()) return {};
  const Json names = Json::parse(found->second, nullptr, false);
  const auto is_text = [](const Json& name) { return name.is_string(); };
  if (!names.is_array() || !std::all_of(names.begin(), names.end(), is_text)) return {};
  return names.get<std::vector<std::string>>();
}

namespace {

// Replicas may have shares of different size, and so plans of their own.
std::string plans_key(const DeviceInfo& device, std::size_t replica) {
  return fmt::format("plans of {}: {}, replica {}", device.backend, device.name, replica);
}

}  // namespace

std::map<std::string, std::string> plans_of(const std::vector<std::unique_ptr<Replica>>& replicas,
                                            const std::vector<std::unique_ptr<Device>>& devices, std::size_t first) {
  std::map<std::string, std::string> plans;
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    std::string text = replicas[r]->plans();
    if (!text.empty()) plans.emplace(plans_key(devices[r]->info(), first + r), std::move(text));
  }
  return plans;
}

std::map<std::string, std::string> plans_of_all(const std::map<std::string, std::string>& mine, Group& group) {
  const std::string text = Json(mine).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::map<std::string, std::string> all;
  for (const std::vector<std::byte>& bytes : group.all_gather(Group::kRun, std::as_bytes(std::span(text)))) {
    const auto* begin = reinterpret_cast<const char*>(bytes.data());
    all.merge(Json::parse(begin, begin + bytes.size()).get<std::map<std::string, std::string>>());
  }
  return all;
}

std::string plans_for(const DeviceInfo& device, std::size_t replica, const std::map<std::string, std::string>& metadata) {
  for (const std::string& key : {plans_key(device, replica), fmt::format("plans of {}: {}, ", device.backend, device.name),
                                 fmt::format("plans of {}: ", device.backend)}) {
    const auto first = metadata.lower_bound(key);
    if (first != metadata.end() && first->first.starts_with(key)) return first->second;
  }
  return {};
}

}  // namespace millrace
