#include "run/memory_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "millrace/util/bytes.h"
#include "run/check.h"

namespace millrace {

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
