#include "checkpoint/versions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/library_folder.h"
#include "millrace/communicator.h"
#include "millrace/detail/types.h"
#include "millrace/optimizer.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"

namespace millrace {
namespace {

// "2c30c3e0", with "-dirty" appended if sources were changed; "" for a build outside of git. A file next to the pipelines holds
// it, so that a commit recompiles nothing.
std::string commit_of_build() {
  for (const std::filesystem::path& folder : share_folders()) {
    std::ifstream file(folder / "commit");
    if (std::string commit; std::getline(file, commit)) return commit;
  }
  return {};
}

}  // namespace

Versions versions_of_code(const Pipeline& pipeline, const Registry& registry) {
  Versions versions = versions_of({});
  if (std::string commit = commit_of_build(); !commit.empty()) versions["commit"] = std::move(commit);
  std::set<std::string> used;
  for (const GraphPlan& graph : pipeline.graphs) {
    for (const StagePlan& stage : graph.stages) used.insert(stage.type->plugin);
  }
  const auto add_all = [&](const auto& types) {
    for (const auto& [name, type] : types) used.insert(type.plugin);
  };
  add_all(registry.layers());
  add_all(registry.losses());
  add_all(registry.optimizers());
  add_all(registry.backends());
  add_all(registry.communicators());
  for (const PluginInfo& plugin : loaded_plugins(registry)) {
    if (used.contains(plugin.name)) versions["plugin " + plugin.name] = plugin.version;
  }
  return versions;
}

Versions versions_of(const std::vector<std::unique_ptr<Device>>& devices) {
  Versions versions = {{"Millrace", MILLRACE_VERSION}, {"ABI", fmt::format("{}.{}", kAbiVersion, kAbiMinor)}};
  std::map<std::string, std::vector<std::string>> of_devices;
  for (const auto& device : devices) {
    const DeviceInfo& info = device->info();
    for (const auto& [name, version] : info.versions) {
      std::vector<std::string>& texts = of_devices[fmt::format("{} {}", info.backend, name)];
      if (std::ranges::find(texts, version) == texts.end()) texts.push_back(version);
    }
  }
  for (const auto& [name, texts] : of_devices) versions[name] = fmt::format("{}", fmt::join(texts, " and "));
  return versions;
}

std::vector<Difference> version_differences(const Versions& then, const Versions& now) {
  std::vector<Difference> found;
  for (const auto& [name, version] : then) {
    const auto same = now.find(name);
    if (same != now.end() && same->second != version) found.push_back({name, version, same->second});
  }
  return found;
}

std::string version_changes(const Versions& then, const Versions& now) {
  std::string text;
  for (const Difference& each : version_differences(then, now))
    text += fmt::format("{}{}: {} before, now {}", text.empty() ? "" : "; ", each.key, each.then, each.now);
  return text;
}

}  // namespace millrace
