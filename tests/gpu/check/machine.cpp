#include <fmt/format.h>
#include <sys/utsname.h>

#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include "check.h"
#include "millrace/plugin.h"

namespace millrace::gpu {
namespace {

std::string first_value(const char* file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t at = line.find_first_not_of(": \t", key.size());
    return at == std::string::npos ? "" : line.substr(at);
  }
  return {};
}

// "name: value" of each property that nvidia-smi is asked for.
Json from_nvidia_smi(const std::string& device) {
  constexpr const char* kAsked = "name,uuid,driver_version,memory.total,pstate,clocks.max.sm,power.limit,pcie.link.gen.current";
  Json result = Json::object();
  if (!find_program("nvidia-smi")) return result;
  const Finished answer =
      run({.words = {"nvidia-smi", "--id=" + device, std::string("--query-gpu=") + kAsked, "--format=csv,noheader"},
           .environment = {},
           .log = {},
           .of_machine = true},
          20);
  std::istringstream values(answer.output.substr(0, answer.output.find('\n'))), names(kAsked);
  for (std::string name, value; std::getline(names, name, ',') && std::getline(values, value, ',');) {
    result[name] = value.substr(std::min(value.size(), value.find_first_not_of(' ')));
  }
  return result;
}

struct Found {
  std::vector<DeviceInfo> devices;
  std::string why_not;
};

Found find_devices(const std::string& backend_name) {
  Registry registry;
  registry.load_all();
  const BackendType* type = registry.backend(backend_name);
  if (type == nullptr) return {{}, fmt::format("there is no plugin with backend '{}'", backend_name)};
  const std::shared_ptr<Backend> backend = type->create();
  return {backend->devices(), backend->why_not()};
}

// What the backend itself says of its first device, the versions of its libraries among it.
Json from_backend(const std::string& name) {
  const auto [devices, why_not] = find_devices(name);
  if (devices.empty()) return {{"why_not", why_not}};
  Json result = {{"name", devices.front().name},
                 {"uuid", devices.front().uuid},
                 {"memory", devices.front().memory},
                 {"count", devices.size()}};
  for (const auto& [key, value] : devices.front().details) result[key] = value;
  return result;
}

}  // namespace

std::string device_id(const Json& machine) {
  const std::string uuid = machine.value("device", Json::object()).value("uuid", "");
  return uuid.empty() ? "0" : uuid;
}

Json machine(const Setting& setting) {
  utsname system{};
  uname(&system);
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  Json result = {{"date", date}, {"kernel", fmt::format("{} {}", system.sysname, system.release)}};
  result["system"] = first_value("/etc/os-release", "PRETTY_NAME=");
  result["processor"] = first_value("/proc/cpuinfo", "model name");
  result["processors"] = std::thread::hardware_concurrency();
  result["memory"] = first_value("/proc/meminfo", "MemTotal");
  result["cuda_libraries"] = setting.cuda_libraries;
  result["device"] = from_backend(setting.backend);
  result["nvidia_smi"] = from_nvidia_smi(device_id(result));
  return result;
}

Json machine_in_a_process(const Setting& setting, double limit) {
  const std::string log = setting.log("machine");
  const Finished finished = run({.words = {setting.self.string(), "--machine", "--backend", setting.backend},
                                 .environment = setting.environment(),
                                 .log = log},
                                limit);
  Json answer = Json::parse(finished.output, nullptr, false);
  if (answer.is_object()) return answer;
  return {{"error", finished.timed_out ? "no answer in time" : fmt::format("status {}: {}", finished.status, tail(log))}};
}

}  // namespace millrace::gpu
