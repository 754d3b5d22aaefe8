// The network zoo: networks that a pipeline names without a path, `use = "resnet18"`. They are files NAME.toml in
//   1. the folder `networks` beside the pipeline file,
//   2. `networks` in the folder that MILLRACE_PIPELINES names,
//   3. share/millrace/pipelines/networks of the build or install tree that this library belongs to.
// The first folder that has the name wins.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

// Whether `use` names a network and not a file: it has no slash and does not end in ".toml".
bool is_network_name(std::string_view use);

// The network's file; nothing when no folder has it. `folder`: of the pipeline file.
std::optional<std::string> find_network(const std::string& name, const std::filesystem::path& folder);

// All there are, by name: where the first folder has each.
std::map<std::string, std::string> network_files(const std::filesystem::path& folder);

// What a message says of a name that no folder has: the nearest one, and all there are.
std::string no_such_network(const std::string& name, const std::filesystem::path& folder);

}  // namespace millrace
