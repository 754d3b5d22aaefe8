#include "millrace/backend/memory_planner.h"

#include <algorithm>
#include <numeric>

namespace millrace {
namespace {

bool overlap(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

struct Occupied {
  std::size_t begin, end;
};

// The start of the smallest gap of at least `bytes` between the occupied ranges, or the end of the last one.
std::size_t best_gap(std::vector<Occupied>& occupied, std::size_t bytes) {
  std::sort(occupied.begin(), occupied.end(), [](const Occupied& a, const Occupied& b) { return a.begin < b.begin; });
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
  std::vector<std::size_t> placed;
  std::vector<Occupied> occupied;
  for (const std::size_t tensor : order) {
    const std::size_t bytes = aligned(tensors[tensor].bytes);
    if (bytes == 0) continue;
    occupied.clear();
    for (const std::size_t other : placed) {
      if (overlap(tensors[tensor], tensors[other])) {
        occupied.push_back({result.offsets[other], result.offsets[other] + aligned(tensors[other].bytes)});
      }
    }
    result.offsets[tensor] = best_gap(occupied, bytes);
    result.bytes = std::max(result.bytes, result.offsets[tensor] + bytes);
    placed.push_back(tensor);
  }
  return result;
}

}  // namespace millrace
