// Loads plugins into a registry: for programs, and for tests of plugins.
//
//   millrace::Registry registry;
//   millrace::load_all_plugins(registry);
//   millrace::load_plugin(registry, "build/sepia.so");  // outside the search path
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace {

class Registry;

struct PluginInfo {
  std::string name, version, text, path;
};

// Opens one library and registers all of its types, or none. Throws Error(usage): not a plugin, other ABI, name already taken.
void load_plugin(Registry& registry, const std::string& path);

// Loads every plugin in the search path: MILLRACE_PLUGIN_PATH (colon-separated folders), then the folder of this build or install
// tree. Libraries that cannot be loaded, and named folders without any, are skipped; load_errors() has the reasons.
void load_all_plugins(Registry& registry);

const std::vector<PluginInfo>& loaded_plugins(const Registry& registry);
const std::vector<std::string>& load_errors(const Registry& registry);
// To append to a message that `name` is missing: "; skipped: REASON" for each load error that may explain it. Often empty.
std::string skipped_clause(const Registry& registry, std::string_view name);

}  // namespace millrace
