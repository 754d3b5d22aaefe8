// Which tensors may share memory. Pure: intervals of time in, offsets out.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace millrace::cpu {

inline constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector register

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// A tensor that is needed in the steps first ... last, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct Placement {
  std::vector<std::size_t> offsets;  // by tensor; multiples of kAlignment
  std::size_t bytes = 0;             // of the whole arena
};

// Gives tensors whose lifetimes overlap places that do not: largest first, each into the smallest gap that holds it
// ("greedy by size", Pisarchyk and Lee 2020, arXiv 2001.03288). Depends on nothing but its argument.
Placement place(std::span<const Lifetime> tensors);

}  // namespace millrace::cpu
