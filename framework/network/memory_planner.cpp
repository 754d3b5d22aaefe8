#include "millrace/backend/memory_planner.h"

#include <numeric>

namespace millrace {
namespace {

bool overlap(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

struct Occupied {
  std::size_t begin, end;
};

// The start of the smallest gap of at least `bytes` between the occupied ranges, or the end of the last one.
// REQUIRES: they are sorted by their begin.
std::size_t best_gap(const std::vector<Occupied>& occupied, std::size_t bytes) {
  std::size_t end = 0, best = 0, best_size = 0;
  for (const Occupied& range : occupied) {
    if (range.begin > end && range.begin - end >= bytes && (best_size == 0 || range.begin - end < best_size)) {
      best = end;
      best_size = range.begin - end;
    }
    end = std::max(end, range.end);
  }
  return best_size > 0 ? best : end;
}

}  // namespace

Placement place(std::span<const Lifetime> tensors, std::size_t alignment) {
  const auto aligned = [alignment](std::size_t bytes) { return round_up(bytes, alignment); };
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return tensors[a].bytes > tensors[b].bytes; });

  Placement result{std::vector<std::size_t>(tensors.size(), 0), 0};
  struct Placed {
    Occupied range;
    Lifetime lifetime;
  };
  std::vector<Placed> placed;  // sorted by begin: sorting them anew for each tensor takes seconds for thousands of layers
  std::vector<Occupied> occupied;
  for (const std::size_t tensor : order) {
    const std::size_t bytes = aligned(tensors[tensor].bytes);
    if (bytes == 0) continue;
    occupied.clear();
    for (const Placed& other : placed) {
      if (overlap(tensors[tensor], other.lifetime)) occupied.push_back(other.range);
    }
    const std::size_t begin = best_gap(occupied, bytes);
    result.offsets[tensor] = begin;
    result.bytes = std::max(result.bytes, begin + bytes);
    const auto at = std::ranges::upper_bound(placed, begin, {}, [](const Placed& each) { return each.range.begin; });
    placed.insert(at, {{begin, begin + bytes}, tensors[tensor]});
  }
  return result;
}

}  // namespace millrace
