// Files shipped with Millrace and named without a path: networks, `use = "resnet18"`, and base files, which a pipeline extends:
// `extends = "classify"`. They are files NAME.toml in
//   1. the shelf's folder, such as `networks`, next to the file that names them,
//   2. that folder within MILLRACE_PIPELINES,
//   3. share/millrace/pipelines of this library's build or install tree.
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
  const char* what;  // its content, in messages
};
inline constexpr Shelf kNetworks{"networks", "network"}, kBases{"recipes", "base file"};

// Whether a text is such a name rather than a path: it has no slash and does not end in ".toml".
bool is_shipped_name(std::string_view text);

// The file; empty if no folder has it. `folder`: that of the file that names it.
std::optional<std::string> find_shipped(const Shelf& shelf, const std::string& name, const std::filesystem::path& folder);

// All of them by name, each from the first folder that has it.
std::map<std::string, std::string> shipped_files(const Shelf& shelf, const std::filesystem::path& folder);

// The message for an unknown name, "unknown network 'resnet81'; nearest is 'resnet18'; there are ...".
std::string no_such_name(const Shelf& shelf, const std::string& name, const std::filesystem::path& folder);

}  // namespace millrace
