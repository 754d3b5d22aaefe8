#include "run/devices.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "millrace/error.h"

namespace millrace {
namespace {

int parse_number(std::string_view digits, std::string_view whole) {
  int number = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (code != std::errc() || end != digits.data() + digits.size() || number < 0) {
    fail(ErrorKind::usage, "devices = \"{}\": '{}' is no device number; write \"cpu\", \"cpu*2\", \"cuda\" or \"cuda:0,2\"", whole,
         digits);
  }
  return number;
}

std::shared_ptr<Backend> make_backend(const std::string& name, const Registry& registry) {
  if (const BackendType* type = registry.backend(name)) return type->create();
  std::vector<std::string> names;
  for (const auto& [known, type] : registry.backends()) names.push_back(known);
  const auto near = nearest_name(name, names);
  fail(ErrorKind::usage, "no backend '{}' for devices; there {} {}{}", name, names.size() == 1 ? "is" : "are",
       names.empty() ? "none: no backend plugin was found" : fmt::format("{}", fmt::join(names, ", ")),
       near ? fmt::format("; nearest is '{}'", *near) : "");
}

// A device that is not the CPU if one can be used; the CPU otherwise.
std::shared_ptr<Backend> choose_backend(const Registry& registry) {
  for (const auto& [name, type] : registry.backends()) {
    if (name == "cpu") continue;
    auto backend = type.create();
    if (!backend->devices().empty()) return backend;
  }
  return make_backend("cpu", registry);
}

std::vector<int> check_indices(std::vector<int> indices, Backend& backend, std::string_view text) {
  const std::vector<DeviceInfo> present = backend.devices();
  if (present.empty()) {
    fail(ErrorKind::device, "devices = \"{}\": backend '{}' has no usable device: {}", text, backend.name(), backend.why_not());
  }
  if (indices.empty()) {
    for (const DeviceInfo& device : present) indices.push_back(device.index);
  }
  for (const int index : indices) {
    const bool known = std::any_of(present.begin(), present.end(), [&](const DeviceInfo& info) { return info.index == index; });
    if (!known) {
      fail(ErrorKind::usage, "devices = \"{}\": there is no {}:{}; this machine has {} of them, numbered from {}", text,
           backend.name(), index, present.size(), present.front().index);
    }
  }
  return indices;
}

}  // namespace

DeviceRequest parse_devices(std::string_view text) {
  DeviceRequest request;
  const std::size_t end = std::min(text.find_first_of(":*"), text.size());
  request.backend = text.substr(0, end);
  if (request.backend.empty()) fail(ErrorKind::usage, "devices = \"{}\" names no backend; write \"auto\" or \"cpu\"", text);
  if (end == text.size()) return request;
  std::string_view rest = text.substr(end + 1);
  if (text[end] == '*') {
    const int copies = parse_number(rest, text);
    if (copies < 1) fail(ErrorKind::usage, "devices = \"{}\": at least one replica is needed", text);
    request.indices.assign(static_cast<std::size_t>(copies), 0);
    return request;
  }
  while (true) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const int index = parse_number(rest.substr(0, comma), text);
    if (std::find(request.indices.begin(), request.indices.end(), index) != request.indices.end()) {
      fail(ErrorKind::usage, "devices = \"{}\" names device {} twice", text, index);
    }
    request.indices.push_back(index);
    if (comma == rest.size()) return request;
    rest.remove_prefix(comma + 1);
  }
}

CoreShares share_cores(const std::vector<int>& cores, std::size_t replicas, const std::vector<double>& load) {
  CoreShares shares;
  const std::size_t for_data = cores.size() >= 8 ? cores.size() / 8 : 0;
  const std::size_t usable = cores.size() - for_data;
  shares.data.assign(cores.end() - static_cast<std::ptrdiff_t>(for_data), cores.end());
  shares.replicas.resize(replicas);
  if (replicas >= usable) {  // more replicas than cores: they take turns
    for (std::size_t r = 0; r < replicas; ++r) shares.replicas[r] = {cores[r % usable]};
    return shares;
  }
  const auto share_of = [&](std::size_t r) { return load.empty() ? 1.0 : load[r]; };
  double total = 0;
  for (std::size_t r = 0; r < replicas; ++r) total += share_of(r);
  std::size_t next = 0;
  double before = 0;
  for (std::size_t r = 0; r < replicas; ++r) {
    before += share_of(r);
    const std::size_t left_to_others = replicas - 1 - r;
    auto end = static_cast<std::size_t>(static_cast<double>(usable) * before / total + 0.5);
    end = std::clamp(end, next + 1, usable - left_to_others);
    shares.replicas[r].assign(cores.begin() + static_cast<std::ptrdiff_t>(next), cores.begin() + static_cast<std::ptrdiff_t>(end));
    next = end;
  }
  return shares;
}

std::vector<int> available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

OpenDevices open_devices(std::string_view text, const std::vector<double>& load, const Registry& registry) {
  const DeviceRequest request = parse_devices(text);
  OpenDevices open;
  open.backend = request.backend == "auto" ? choose_backend(registry) : make_backend(request.backend, registry);
  const std::vector<int> indices = check_indices(request.indices, *open.backend, text);
  if (!load.empty() && load.size() != indices.size()) {
    fail(ErrorKind::usage, "load has {} shares, devices = \"{}\" makes {} replica{}", load.size(), text, indices.size(),
         indices.size() == 1 ? "" : "s");
  }
  open.cores = share_cores(available_cores(), indices.size(), load);
  for (std::size_t r = 0; r < indices.size(); ++r) {
    open.devices.push_back(open.backend->open(indices[r], DeviceOptions{.cores = open.cores.replicas[r]}));
  }
  return open;
}

Precision choose_precision(std::string_view text, const OpenDevices& open) {
  if (text == "fp32") return Precision::fp32;
  if (text == "tf32") return Precision::tf32;
  if (text == "bf16") return Precision::bf16;
  if (text != "auto") fail(ErrorKind::usage, "precision = \"{}\": choose \"auto\", \"fp32\", \"tf32\" or \"bf16\"", text);
  const bool native = std::all_of(open.devices.begin(), open.devices.end(),
                                  [](const auto& device) { return device->info().native_bf16; });
  return native ? Precision::bf16 : Precision::fp32;
}

}  // namespace millrace
