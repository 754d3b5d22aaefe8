#include "base/control_group.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

namespace millrace {

namespace fs = std::filesystem;

// Lines such as "0::/user.slice" (version 2) and "9:memory:/docker/3f" (version 1).
std::vector<fs::path> control_groups(const fs::path& root, std::string_view controller) {
  const fs::path all = root / "sys/fs/cgroup";
  std::vector<fs::path> found;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kinds = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const bool is_version_2 = kinds == ",,";
    if (!is_version_2 && kinds.find(fmt::format(",{},", controller)) == std::string::npos) continue;
    const fs::path top = is_version_2 ? all : all / controller;
    for (fs::path at = fs::path(line.substr(second + 1)).relative_path();; at = at.parent_path()) {
      found.push_back(top / at);
      if (at.empty()) break;
    }
  }
  return found;
}

}  // namespace millrace
