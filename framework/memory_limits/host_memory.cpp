#include "millrace/util/host_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

// The number at the start of a text; unlimited without one ("max").
std::size_t number_in(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  std::size_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() ? number : kUnlimited;
}

std::size_t machine_memory(const fs::path& root) {
  constexpr std::string_view kTotal = "MemTotal:";
  std::ifstream file(root / "proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kTotal)) continue;
    const std::size_t kibibytes = number_in(std::string_view(line).substr(kTotal.size()));
    return kibibytes > kUnlimited / 1024 ? kUnlimited : kibibytes * 1024;
  }
  return kUnlimited;
}

// The least limit in `file` of a control group's folder and its parents, up to `top`.
std::size_t least_limit(const fs::path& top, const fs::path& group, const char* file) {
  std::size_t least = kUnlimited;
  for (fs::path at = group.relative_path();; at = at.parent_path()) {
    std::string text;
    if (std::ifstream limit(top / at / file); std::getline(limit, text)) least = std::min(least, number_in(text));
    if (at.empty()) return least;
  }
}

// Lines such as "0::/user.slice" (version 2) and "9:memory:/docker/3f" (version 1).
std::size_t group_memory(const fs::path& root) {
  const fs::path groups = root / "sys/fs/cgroup";
  std::size_t least = kUnlimited;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kinds = fmt::format(",{},", line.substr(first + 1, second - first - 1)), group = line.substr(second + 1);
    if (kinds == ",,") least = std::min(least, least_limit(groups, group, "memory.max"));
    if (kinds.find(",memory,") != std::string::npos)
      least = std::min(least, least_limit(groups / "memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

}  // namespace

std::size_t host_memory(const std::string& root) {
  const std::size_t least = std::min(machine_memory(root), group_memory(root));
  return least == kUnlimited ? 0 : least;
}

bool fits_in_host_memory(std::uint64_t bytes) {
  static const std::size_t memory = host_memory();
  return memory == 0 || bytes <= memory;
}

}  // namespace millrace
