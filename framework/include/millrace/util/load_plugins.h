// Loading plugins into a registry: for programs, and for tests of plugins.
//
//   millrace::Registry registry;
//   millrace::load_all_plugins(registry);
//   millrace::load_plugin(registry, "build/sepia.so");  // which no search path leads to
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace {

class Registry;

struct PluginInfo {
  std::string name, version, text, path;
};

// Opens one library and lets it register: all of its types, or none. Throws Error(usage): not a plugin, other ABI, name already
// taken.
void load_plugin(Registry& registry, const std::string& path);

// Loads every plugin in the search path: MILLRACE_PLUGIN_PATH (colon-separated folders), then the folder that belongs to this
// build or install tree. A library that cannot be loaded is skipped, and so is a named folder without any; the reasons are kept
// for load_errors().
void load_all_plugins(Registry& registry);

const std::vector<PluginInfo>& loaded_plugins(const Registry& registry);
const std::vector<std::string>& load_errors(const Registry& registry);
// For a message that says that there is no `name`: "; skipped: REASON" for each reason that may lie after it. Often empty.
std::string skipped_clause(const Registry& registry, std::string_view name);

}  // namespace millrace
