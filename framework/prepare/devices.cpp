#include "prepare/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "millrace/error.h"
#include "millrace/util/host_cores.h"
#include "millrace/util/load_plugins.h"
#include "millrace/util/wire.h"
#include "ranks/endpoint.h"

namespace millrace {
namespace {

using Choice = DeviceRequest::Choice;

int parse_number(std::string_view digits, std::string_view whole) {
  int number = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (code != std::errc() || end != digits.data() + digits.size() || number < 0) {
    fail(ErrorKind::usage,
         "devices = \"{}\": '{}' is not a device number; write \"cpu\", \"cpu*2\", \"cuda\", \"cuda:0,2\" or the beginning of a "
         "UUID, \"cuda:GPU-8f6d\"",
         whole, digits);
  }
  return number;
}

// A word that begins with a letter is the start of a UUID.
Choice parse_choice(std::string_view word, std::string_view whole) {
  const bool letter = !word.empty() && ((word[0] >= 'A' && word[0] <= 'Z') || (word[0] >= 'a' && word[0] <= 'z'));
  if (!letter) return {.index = parse_number(word, whole), .uuid = {}};
  if (word == "all") fail(ErrorKind::usage, "devices = \"{}\": \"all\" stands alone; nothing can be added to it", whole);
  return {.index = 0, .uuid = std::string(word)};
}

// Every GPU, or those with the numbers that follow.
bool means_gpus(const DeviceRequest& request) { return request.backend == "all" || request.backend == "gpu"; }

// Appended to messages if no plugin has a backend for GPUs.
constexpr const char* kHowToGetCuda =
    "; backend 'cuda' is built where a CUDA 13 toolkit with the headers of cuDNN 9 and NCCL is found: build with "
    "MILLRACE_CUDA=ON tools/quickstart.sh";

std::string name_of(const DeviceInfo& device) { return fmt::format("{}:{}", device.backend, device.index); }

const DeviceInfo& find_index(int index, const std::vector<DeviceInfo>& present, std::string_view text) {
  const auto found = std::find_if(present.begin(), present.end(), [&](const DeviceInfo& info) { return info.index == index; });
  if (found != present.end()) return *found;
  const DeviceInfo& first = present.front();
  fail(ErrorKind::usage, "devices = \"{}\": {}:{} does not exist; this machine has {} of them, numbered from {}", text,
       first.backend, index, present.size(), first.index);
}

const DeviceInfo& find_uuid(const std::string& uuid, const std::vector<DeviceInfo>& present, std::string_view text) {
  std::vector<std::string> all, matching;
  const DeviceInfo* found = nullptr;
  for (const DeviceInfo& device : present) {
    if (device.uuid.empty()) continue;
    all.push_back(fmt::format("{} {}", name_of(device), device.uuid));
    if (!device.uuid.starts_with(uuid)) continue;
    found = &device;
    matching.push_back(all.back());
  }
  if (matching.size() == 1) return *found;
  if (matching.size() > 1) {
    fail(ErrorKind::usage, "devices = \"{}\": '{}' is the beginning of several UUIDs: {}; write more of it", text, uuid,
         fmt::join(matching, ", "));
  }
  fail(ErrorKind::usage, "devices = \"{}\": no device of backend '{}' has a UUID that begins with '{}'; {}", text,
       present.front().backend, uuid,
       all.empty() ? "they have none, choose by number"
                   : fmt::format("there {} {}", all.size() == 1 ? "is" : "are", fmt::join(all, ", ")));
}

std::shared_ptr<Backend> make_backend(const std::string& name, const Registry& registry) {
  if (const BackendType* type = registry.backends().find(name)) return type->create();
  const std::vector<std::string> names = registry.backends().names();
  const auto near = registry.backends().nearest(name);
  fail(ErrorKind::usage, "no backend '{}' for devices; there {} {}{}{}{}", name, names.size() == 1 ? "is" : "are",
       names.empty() ? "none: no backend plugin was found" : fmt::format("{}", fmt::join(names, ", ")),
       near ? fmt::format("; nearest is '{}'", *near) : "", name == "cuda" ? kHowToGetCuda : "", skipped_clause(registry, name));
}

// Backends with a device other than the processor. why_not: the reasons of the others.
std::vector<std::shared_ptr<Backend>> usable_backends(const Registry& registry, std::vector<std::string>& why_not) {
  std::vector<std::shared_ptr<Backend>> usable;
  for (const auto& [name, type] : registry.backends()) {
    if (name == kHostBackend) continue;
    auto backend = type.create();
    if (!backend->devices().empty())
      usable.push_back(std::move(backend));
    else
      why_not.push_back(fmt::format("backend '{}': {}", name, backend->unavailable_reason()));
  }
  return usable;
}

// "auto": a device other than the CPU if one is usable; else the CPU.
std::shared_ptr<Backend> choose_backend(const Registry& registry) {
  std::vector<std::string> why_not;
  const auto usable = usable_backends(registry, why_not);
  return usable.empty() ? make_backend(kHostBackend, registry) : usable.front();
}

// "all", "gpu", "0,1": the one backend with such devices.
std::shared_ptr<Backend> backend_of_gpus(std::string_view text, const Registry& registry) {
  std::vector<std::string> why_not, names;
  const auto usable = usable_backends(registry, why_not);
  for (const auto& backend : usable) names.push_back(backend->name());
  if (usable.size() == 1) return usable.front();
  if (usable.empty()) {
    fail(ErrorKind::device, "devices = \"{}\": no GPU found: {}", text,
         why_not.empty()
             ? fmt::format("no plugin with a backend for GPUs was found{}{}", kHowToGetCuda, skipped_clause(registry, "cuda"))
             : fmt::format("{}", fmt::join(why_not, "; ")));
  }
  fail(ErrorKind::usage, "devices = \"{}\": a run uses devices of one backend, and there are {}; write one of these names", text,
       fmt::join(names, " and "));
}

// Equal for processes of one machine or container.
std::string host_identity() {
  std::string identity = host_name();
  std::error_code ignored;
  identity += '\n' + std::filesystem::read_symlink("/proc/self/ns/net", ignored).string();
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string line;
  if (std::getline(boot, line)) identity += '\n' + line;
  return identity;
}

// Equal for processes of one machine that see the same devices. Under Slurm, tasks in separate control groups each number their
// devices from 0, so the environment variables cannot distinguish them.
std::string devices_identity(const std::vector<DeviceInfo>& present) {
  std::string identity;
  for (const char* variable : {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}) {
    const char* const value = std::getenv(variable);
    identity += fmt::format("{}\n", value == nullptr ? "" : value);
  }
  for (const DeviceInfo& device : present) identity += fmt::format("{}\n", device.uuid);
  return identity;
}

struct Part {
  std::size_t first = 0, count = 0;
};
Part part_of(std::size_t replicas, std::size_t place, std::size_t processes) {
  const std::size_t first = replicas * place / processes;
  return {first, replicas * (place + 1) / processes - first};
}

// `text`: the request for these replicas.
void check_replicas(std::string_view text, std::size_t replicas, std::size_t processes) {
  if (replicas >= processes) return;
  fail(ErrorKind::usage,
       "devices = \"{0}\" makes {1} replica{2}, but there are {3} processes: each needs one, as \"cpu*{3}\" makes them", text,
       replicas, replicas == 1 ? "" : "s", processes);
}

// The index of each rank's first replica; then the number of all replicas.
std::vector<std::size_t> first_replicas(Group* group, std::size_t mine) {
  if (group == nullptr) return {0, mine};
  std::vector<std::size_t> first = {0};
  for (const std::vector<std::byte>& each : group->all_gather(Group::kRun, std::as_bytes(std::span(&mine, 1)))) {
    std::size_t count = 0;
    if (each.size() != sizeof count) fail(ErrorKind::usage, "the processes of this run differ in version");
    std::memcpy(&count, each.data(), sizeof count);
    first.push_back(first.back() + count);
  }
  return first;
}

// The shares of these ranks' replicas; empty: all are equal.
std::vector<double> load_of(const std::vector<double>& load, const std::vector<std::size_t>& first,
                            const std::vector<std::size_t>& ranks) {
  std::vector<double> theirs;
  if (load.empty()) return theirs;
  for (const std::size_t rank : ranks) {
    for (std::size_t r = first[rank]; r < first[rank + 1]; ++r) theirs.push_back(load[r]);
  }
  return theirs;
}

}  // namespace

DeviceRequest parse_devices(std::string_view text) {
  DeviceRequest request;
  const bool is_number = !text.empty() && text[0] >= '0' && text[0] <= '9';  // "0,1"
  const std::size_t end = is_number ? 0 : std::min(text.find_first_of(":*"), text.size());
  request.backend = is_number ? "gpu" : text.substr(0, end);
  if (request.backend.empty()) fail(ErrorKind::usage, "devices = \"{}\" names no backend; write \"auto\" or \"cpu\"", text);
  if (end == text.size()) return request;
  if (request.backend == "all") fail(ErrorKind::usage, "devices = \"{}\": \"all\" stands alone, or after a backend", text);
  std::string_view rest = is_number ? text : text.substr(end + 1);
  if (!is_number && text[end] == '*') {
    const int copies = parse_number(rest, text);
    if (copies < 1) fail(ErrorKind::usage, "devices = \"{}\": at least one replica is needed", text);
    request.choices.assign(static_cast<std::size_t>(copies), Choice{});
    return request;
  }
  if (rest == "all") return request;
  while (true) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    Choice choice = parse_choice(rest.substr(0, comma), text);
    if (std::find(request.choices.begin(), request.choices.end(), choice) != request.choices.end()) {
      fail(ErrorKind::usage, "devices = \"{}\" names device {} twice", text, rest.substr(0, comma));
    }
    request.choices.push_back(std::move(choice));
    if (comma == rest.size()) return request;
    rest.remove_prefix(comma + 1);
  }
}

std::vector<int> resolve_devices(const DeviceRequest& request, const std::vector<DeviceInfo>& present, std::string_view text) {
  std::vector<int> indices;
  bool by_uuid = false;
  for (const DeviceInfo& device : present) {
    if (request.choices.empty()) indices.push_back(device.index);
  }
  for (const Choice& choice : request.choices) {
    by_uuid = by_uuid || !choice.uuid.empty();
    const DeviceInfo& device =
        choice.uuid.empty() ? find_index(choice.index, present, text) : find_uuid(choice.uuid, present, text);
    if (by_uuid && std::find(indices.begin(), indices.end(), device.index) != indices.end()) {
      fail(ErrorKind::usage, "devices = \"{}\" names {} twice", text, name_of(device));
    }
    indices.push_back(device.index);
  }
  return indices;
}

CoreShares share_cores(const std::vector<int>& cores, std::size_t replicas, const std::vector<double>& load, bool computes_here) {
  CoreShares shares;
  const std::size_t for_data = computes_here && cores.size() >= 8 ? cores.size() / 8 : 0;
  const std::size_t usable = cores.size() - for_data;
  shares.data.assign(cores.end() - static_cast<std::ptrdiff_t>(for_data), cores.end());
  shares.replicas.resize(replicas);
  const auto share_of = [&](std::size_t r) { return load.empty() ? 1.0 : load[r]; };
  std::vector<std::size_t> busy;  // replicas that compute
  double total = 0;
  for (std::size_t r = 0; r < replicas; ++r) {
    if (share_of(r) > 0) busy.push_back(r);
    total += share_of(r);
    shares.replicas[r] = {cores[r % usable]};  // another process's: sums and updates are little work
  }
  if (busy.size() >= usable) {  // more replicas than cores: they take turns
    for (std::size_t i = 0; i < busy.size(); ++i) shares.replicas[busy[i]] = {cores[i % usable]};
    return shares;
  }
  std::size_t next = 0;
  double before = 0;
  for (std::size_t i = 0; i < busy.size(); ++i) {
    const std::size_t r = busy[i];
    before += share_of(r);
    const std::size_t left_to_others = busy.size() - 1 - i;
    auto end = static_cast<std::size_t>(static_cast<double>(usable) * before / total + 0.5);
    end = std::clamp(end, next + 1, usable - left_to_others);
    shares.replicas[r].assign(cores.begin() + static_cast<std::ptrdiff_t>(next),
                              cores.begin() + static_cast<std::ptrdiff_t>(end));
    next = end;
  }
  return shares;
}

std::vector<int> cores_of_data(const CoreShares& shares, std::size_t threads) {
  return threads <= shares.data.size() ? shares.data : std::vector<int>();
}

DataShare share_of_data(const std::vector<int>& kept, std::size_t cores, const HostShare& host, bool computes_here) {
  const std::size_t place = host.has_own_cores ? 0 : host.place, count = host.has_own_cores ? 1 : host.ranks.size();
  if (!kept.empty()) {
    const std::size_t begin = place * kept.size() / count, end = std::max(begin + 1, (place + 1) * kept.size() / count);
    const auto at = [&](std::size_t i) { return kept.begin() + static_cast<std::ptrdiff_t>(i); };
    return {{at(begin), at(end)}, end - begin};
  }
  const std::size_t sharing = computes_here || host.has_own_cores ? 1 : host.processes;
  return {{}, std::max<std::size_t>(1, cores / sharing)};
}

HostShare share_of_host(Group* group, const std::vector<DeviceInfo>& present) {
  if (group == nullptr) return {};
  const std::string host = host_identity(), devices = devices_identity(present);
  const std::string cores = fmt::format("{}", fmt::join(available_cores(), " "));
  WireWriter mine;
  for (const std::string* text : {&host, &devices, &cores}) mine.put(std::string_view(*text));
  const auto all = group->all_gather(Group::kRun, mine.bytes());
  HostShare share{.ranks = {}, .processes = 0};
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    WireReader its(all[rank]);
    if (its.get<std::string>() != host) continue;
    ++share.processes;
    if (its.get<std::string>() != devices) continue;
    if (its.get<std::string>() != cores) share.has_own_cores = true;
    if (rank == static_cast<std::size_t>(group->rank())) share.place = share.ranks.size();
    share.ranks.push_back(rank);
  }
  return share;
}

namespace {

// Warns if the CPU has many more replicas than cores.
void warn_of_turns(std::string_view text, const DeviceRequest& request, const std::vector<int>& indices,
                   const std::function<void(std::string_view)>& warn) {
  constexpr std::size_t kMany = 2;  // per core; fewer may be intended, for the same results as elsewhere
  const std::size_t cores = available_cores().size();
  const bool are_copies = request.backend == kHostBackend && indices.size() > kMany * cores;
  if (!are_copies || !warn) return;
  warn(
      fmt::format("devices = \"{}\" makes {} replicas for {} core{}: they take turns, which costs memory without a gain; \"cpu\" "
                  "uses all cores",
                  text, indices.size(), cores, cores == 1 ? "" : "s"));
}

}  // namespace

FoundDevices find_devices(std::string_view text, const Registry& registry) {
  FoundDevices found;
  found.request = parse_devices(text);
  found.backend = found.request.backend == "auto" ? choose_backend(registry)
                  : means_gpus(found.request)     ? backend_of_gpus(text, registry)
                                                  : make_backend(found.request.backend, registry);
  found.present = found.backend->devices();
  if (found.present.empty()) {
    fail(ErrorKind::device, "devices = \"{}\": backend '{}' has no usable device: {}", text, found.backend->name(),
         found.backend->unavailable_reason());
  }
  found.indices = resolve_devices(found.request, found.present, text);
  return found;
}

OpenDevices open_devices(std::string_view text, const std::vector<double>& load, const Registry& registry,
                         const std::function<void(std::string_view)>& warn, Group* group) {
  const auto [request, backend, present, indices] = find_devices(text, registry);
  OpenDevices open;
  open.backend = backend;
  warn_of_turns(text, request, indices, warn);
  const HostShare share = share_of_host(group, present);
  check_replicas(text, indices.size(), share.ranks.size());
  const Part part = part_of(indices.size(), share.place, share.ranks.size());
  const std::vector<std::size_t> first = first_replicas(group, part.count);
  const auto rank = static_cast<std::size_t>(group ? group->rank() : 0);
  open.first_replica = first[rank];
  open.all_replicas = first.back();
  open.processes_here = share.processes;
  if (!load.empty() && load.size() != open.all_replicas) {
    fail(ErrorKind::usage, "load has {} shares, devices = \"{}\" makes {} replica{}", load.size(), text, open.all_replicas,
         open.all_replicas == 1 ? "" : "s");
  }
  const bool computes_here = open.backend->name() == kHostBackend;
  const CoreShares cores = share.has_own_cores
                               ? share_cores(available_cores(), part.count, load_of(load, first, {rank}), computes_here)
                               : share_cores(available_cores(), indices.size(), load_of(load, first, share.ranks), computes_here);
  DataShare data = share_of_data(cores.data, available_cores().size(), share, computes_here);
  open.cores.data = std::move(data.cores);
  open.data_threads = data.threads;
  for (std::size_t r = 0; r < part.count; ++r) {
    open.cores.replicas.push_back(cores.replicas[share.has_own_cores ? r : part.first + r]);
    open.devices.push_back(
        open.backend->open(indices[part.first + r], DeviceOptions{.cores = open.cores.replicas.back(), .warn = warn}));
  }
  return open;
}

Precision choose_precision(std::string_view text, const OpenDevices& open) {
  if (text == "fp32") return Precision::fp32;
  if (text == "tf32") return Precision::tf32;
  if (text == "bf16") return Precision::bf16;
  if (text != "auto") fail(ErrorKind::usage, "precision = \"{}\": choose \"auto\", \"fp32\", \"tf32\" or \"bf16\"", text);
  const bool native =
      std::all_of(open.devices.begin(), open.devices.end(), [](const auto& device) { return device->info().native_bf16; });
  return native ? Precision::bf16 : Precision::fp32;
}

}  // namespace millrace
