#include "checkpoint/versions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "millrace/plugin.h"

namespace millrace {

std::map<std::string, std::string> versions_of(const std::vector<std::unique_ptr<Device>>& devices) {
  std::map<std::string, std::string> versions = {{"Millrace", MILLRACE_VERSION}, {"ABI", std::to_string(kAbiVersion)}};
  std::map<std::string, std::vector<std::string>> of_devices;
  for (const auto& device : devices) {
    const DeviceInfo& info = device->info();
    for (const auto& [name, version] : info.versions) {
      std::vector<std::string>& said = of_devices[fmt::format("{} {}", info.backend, name)];
      if (std::ranges::find(said, version) == said.end()) said.push_back(version);
    }
  }
  for (const auto& [name, said] : of_devices) versions[name] = fmt::format("{}", fmt::join(said, " and "));
  return versions;
}

std::string version_changes(const std::map<std::string, std::string>& then, const std::map<std::string, std::string>& now) {
  std::string text;
  for (const auto& [name, version] : then) {
    const auto found = now.find(name);
    if (found == now.end() || found->second == version) continue;
    text += fmt::format("{}{}: {} before, now {}", text.empty() ? "" : "; ", name, version, found->second);
  }
  return text;
}

}  // namespace millrace
