// Files that come with Millrace and are named without a path: networks, `use = "resnet18"`, and base files, which a pipeline
// extends: `extends = "classify"`. They are files NAME.toml in
//   1. the shelf's folder, such as `networks`, beside the file that names them,
//   2. that folder in the one that MILLRACE_PIPELINES names,
//   3. share/millrace/pipelines of the build or install tree that this library belongs to.
// The first folder that has the name wins.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

struct Shelf {
  const char* folder;
  const char* what;  // is on it, in messages
};
inline constexpr Shelf kNetworks{"networks", "network"}, kBases{"recipes", "base file"};

// Whether a text names such a file and not a path: it has no slash and does not end in ".toml".
bool is_shipped_name(std::string_view text);

// The file; nothing when no folder has it. `folder`: of the file that names it.
std::optional<std::string> find_shipped(const Shelf& shelf, const std::string& name, const std::filesystem::path& folder);

// All there are, by name: where the first folder has each.
std::map<std::string, std::string> shipped_files(const Shelf& shelf, const std::filesystem::path& folder);

// What a message says of a name that no folder has: the nearest one, and all there are.
std::string no_such_name(const Shelf& shelf, const std::string& name, const std::filesystem::path& folder);

}  // namespace millrace
