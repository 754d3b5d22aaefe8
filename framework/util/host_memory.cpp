#include "millrace/util/host_memory.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

#include "util/control_group.h"

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

std::size_t group_memory(const fs::path& root) {
  std::size_t least = kUnlimited;
  for (const fs::path& group : control_groups(root, "memory")) {
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {  // version 2, version 1
      std::string text;
      if (std::ifstream limit(group / name); std::getline(limit, text)) least = std::min(least, number_in(text));
    }
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
