#include "util/memory_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace millrace {

std::size_t address_limit() {
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? static_cast<std::size_t>(limit.rlim_cur) : 0;
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::string bytes_text(std::size_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib >= 1024 ? fmt::format("{:.2f} GiB", mib / 1024) : fmt::format("{:.1f} MiB", mib);
}

std::string held_memory(std::size_t of_host) {
  const std::size_t there = lesser_limit(of_host, address_limit());
  const std::string held = fmt::format("the program holds {}", bytes_text(resident_bytes()));
  return there == 0 ? held : fmt::format("{}, and there are {}", held, bytes_text(there));
}

std::size_t usable_device_memory(std::size_t free, std::size_t total) {
  constexpr std::size_t kStep = std::size_t{256} << 20, kMaxReserve = std::size_t{1} << 30;
  const std::size_t reserve = std::min(total / 8, kMaxReserve);
  return free > reserve ? (free - reserve) / kStep * kStep : 0;
}

}  // namespace millrace
