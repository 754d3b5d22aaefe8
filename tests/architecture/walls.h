// Architecture checks over a source tree and built libraries. Each returns its findings, one line each:
// "framework/run/run.cpp:12: includes <dnnl.hpp>: the framework knows no device". Empty if there are none.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace millrace::architecture {

using Findings = std::vector<std::string>;

// Includes. The framework: no device, image or network library, no plugin and no tool; oneTBB in framework/graph only, toml++ in
// framework/config only. Public headers: each other. Plugins: millrace/*.h, their own files and external libraries (their tests
// the test kit as well). Tools: no plugin.
Findings check_includes(const std::filesystem::path& root);

// The framework names no type registered by a plugin, except those listed in type_names.cpp with the reason.
struct KnownName {
  const char *file = "", *name = "";
};
std::span<const KnownName> known_names();
Findings check_names(const std::filesystem::path& root, std::span<const KnownName> known = known_names());

// One file of the framework defines which backend computes on the host (kHostBackend); other files and the tools use that.
Findings check_host_backend(const std::filesystem::path& root);

// Only a tool's main.cpp ends the process.
Findings check_exits(const std::filesystem::path& root);

// The framework and plugins send messages to the run, and never write to standard error: an observer does, and without a run,
// print_warning().
Findings check_streams(const std::filesystem::path& root);

// The framework's library needs no device or image library; no plugin needs another plugin. `plugins`: the folder of plugins.
Findings check_link_lines(const std::filesystem::path& framework_library, const std::filesystem::path& plugins);

// Each entry of a messages.txt belongs to a test in the same folder.
Findings check_messages(const std::filesystem::path& root);

// An install tree's headers are exactly those of framework/include and plugins/*/*/include.
Findings check_installed_headers(const std::filesystem::path& root, const std::filesystem::path& prefix);

}  // namespace millrace::architecture
