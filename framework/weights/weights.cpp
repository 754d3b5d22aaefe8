#include "weights/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "millrace/error.h"
#include "util/json.h"
#include "weights/safetensors.h"

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

std::map<int, std::vector<float>> mean_statistics(const std::vector<std::unique_ptr<Replica>>& replicas, const Network& network,
                                                  std::span<const double> load, Group* group) {
  std::map<int, std::vector<float>> statistics;
  for (int p = -1; const Parameter& parameter : network.parameters) {
    ++p;
    if (!parameter.statistic) continue;
    std::vector<std::vector<float>> copies;
    for (const auto& replica : replicas) copies.push_back(replica->read(kValue, p));
    if (group != nullptr) copies = copies_of_all(copies, *group);
    statistics[p] = copies.size() == 1 ? std::move(copies.front()) : weighted_mean(copies, load);
  }
  return statistics;
}

void save_weights_file(const std::string& path, const Network& network, const Weights& weights,
                       const std::map<std::string, std::string>& metadata) {
  const auto fetch = [&weights](int parameter) { return weights[static_cast<std::size_t>(parameter)]; };
  WeightsFile(network, fetch, metadata).write(path);
}

WeightsFile::WeightsFile(const Network& network, Fetch fetch, std::map<std::string, std::string> metadata)
    : fetch_(std::move(fetch)), metadata_(std::move(metadata)) {
  for (const Parameter& parameter : network.parameters) {
    tensors_.push_back({parameter.stored_name.empty() ? parameter.name : parameter.stored_name, "F32",
                        parameter.stored_shape.rank() == 0 ? parameter.shape : parameter.stored_shape});
  }
  metadata_["format"] = "pt";
  metadata_["network"] = network.name;
}

std::vector<float> WeightsFile::values(std::size_t parameter, const std::string& path) const {
  std::vector<float> values = fetch_(static_cast<int>(parameter));
  if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return values;
  fail(ErrorKind::run, "'{}' has values that are not finite: '{}' is not written", tensors_[parameter].name, path);
}

void WeightsFile::write(const std::string& path) const {
  write_safetensors(path, tensors_, metadata_, [&](std::size_t parameter) { return values(parameter, path); });
}

void WeightsFile::keep(const std::string& path) {
  auto kept = std::make_shared<Weights>();
  for (std::size_t p = 0; p < tensors_.size(); ++p) kept->push_back(values(p, path));
  fetch_ = [kept](int parameter) { return (*kept)[static_cast<std::size_t>(parameter)]; };
}

std::map<std::string, std::string> metadata_of(const std::vector<std::string>& classes) {
  if (classes.empty()) return {};
  return {{"classes", Json(classes).dump(-1, ' ', false, Json::error_handler_t::replace)}};
}

std::vector<std::string> classes_from(const std::map<std::string, std::string>& metadata) {
  constexpr std::size_t kLongest = std::size_t{8} << 20;  // total length of their names
  const auto found = metadata.find("classes");
  if (found == metadata.end() || found->second.size() > kLongest) return {};
  const Json names = Json::parse(found->second, nullptr, false);
  const auto is_text = [](const Json& name) { return name.is_string(); };
  if (!names.is_array() || !std::all_of(names.begin(), names.end(), is_text)) return {};
  return names.get<std::vector<std::string>>();
}

namespace {

// Replicas may have shares of different size, and so different plans.
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
