#include "prepare/batch_size.h"

#include <algorithm>

namespace millrace {
namespace {

constexpr std::uint64_t kMultiple = 8;   // times the least size
constexpr std::uint64_t kFineness = 16;  // sizes between two powers of two

using Fits = std::function<bool(std::uint64_t)>;

// Below the first size tried.
std::uint64_t small_batch(std::uint64_t least, std::uint64_t below, const Fits& fits) {
  for (std::uint64_t size = kMultiple / 2 * least; size >= least; size /= 2) {
    if (size < below && fits(size)) return size;
  }
  return 0;
}

// Between `low`, which fits, and `high`, which does not.
std::uint64_t between(std::uint64_t low, std::uint64_t high, std::uint64_t multiple, const Fits& fits) {
  const std::uint64_t step = std::max(multiple, low / kFineness);
  std::uint64_t best = 0, too_many = (high - low + step - 1) / step;
  while (too_many - best > 1) {
    const std::uint64_t middle = (best + too_many) / 2;
    (fits(low + middle * step) ? best : too_many) = middle;
  }
  return low + best * step;
}

}  // namespace

std::uint32_t largest_batch(std::uint32_t least, std::uint32_t most, const std::function<bool(std::uint32_t)>& fits) {
  const Fits asks = [&](std::uint64_t size) { return fits(static_cast<std::uint32_t>(size)); };
  const std::uint64_t multiple = kMultiple * least;
  std::uint64_t low = std::min<std::uint64_t>(multiple, most);
  if (!asks(low)) return static_cast<std::uint32_t>(small_batch(least, low, asks));
  while (low < most) {
    const std::uint64_t next = std::min<std::uint64_t>(2 * low, most);
    if (!asks(next)) return static_cast<std::uint32_t>(between(low, next, multiple, asks));
    low = next;
  }
  return static_cast<std::uint32_t>(low);
}

}  // namespace millrace
