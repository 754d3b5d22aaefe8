#include "run/memory_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "millrace/util/bytes.h"
#include "run/check.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

// The number that a text begins with; unlimited where it is none ("max").
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

// The least that `file` says in the folder of a group and those above it, up to `top`.
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

std::size_t host_memory(const fs::path& root) {
  const std::size_t least = std::min(machine_memory(root), group_memory(root));
  return least == kUnlimited ? 0 : least;
}

std::size_t address_limit() {
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? static_cast<std::size_t>(limit.rlim_cur) : 0;
}

std::string held_memory(std::size_t of_host) {
  const std::size_t there = lesser_limit(of_host, address_limit());
  const std::string held = fmt::format("the program holds {}", bytes_text(resident_bytes()));
  return there == 0 ? held : fmt::format("{}, and there are {}", held, bytes_text(there));
}

std::size_t usable_device_memory(std::size_t free, std::size_t total) {
  constexpr std::size_t kStep = std::size_t{256} << 20, kMostReserve = std::size_t{1} << 30;
  const std::size_t reserve = std::min(total / 8, kMostReserve);
  return free > reserve ? (free - reserve) / kStep * kStep : 0;
}

}  // namespace millrace
