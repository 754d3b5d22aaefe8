#include "run/versions.h"

#include <fmt/format.h>

#include "millrace/plugin.h"

namespace millrace {

std::map<std::string, std::string> versions_of(const std::vector<std::unique_ptr<Device>>& devices) {
  std::map<std::string, std::string> versions = {{"Millrace", MILLRACE_VERSION}, {"ABI", std::to_string(kAbiVersion)}};
  for (const auto& device : devices) {
    const DeviceInfo& info = device->info();
    for (const auto& [name, version] : info.versions) versions.emplace(fmt::format("{} {}", info.backend, name), version);
  }
  return versions;
}

std::string version_changes(const std::map<std::string, std::string>& then, const std::map<std::string, std::string>& now) {
  std::string text;
  for (const auto& [name, version] : then) {
    const auto found = now.find(name);
    if (found == now.end() || found->second == version) continue;
    text += fmt::format("{}{} was {}, is {}", text.empty() ? "" : "; ", name, version, found->second);
  }
  return text;
}

}  // namespace millrace
