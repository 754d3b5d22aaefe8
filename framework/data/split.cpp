#include "millrace/detail/split.h"

#include <cassert>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace millrace {

std::vector<Share> split(std::uint32_t count, std::size_t replicas, std::span<const double> load) {
  assert(replicas > 0 && (load.empty() || load.size() == replicas));
  const std::vector<double> weight =
      load.empty() ? std::vector<double>(replicas, 1.0) : std::vector<double>(load.begin(), load.end());
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);

  // Every replica gets at least the whole part of its quota; the few remaining samples go where a sample weighs least. The margin
  // keeps a quota that was rounded just above a whole number from claiming too much.
  std::vector<Share> shares(replicas);
  std::uint32_t left = count;
  for (std::size_t r = 0; r < replicas; ++r) {
    shares[r].count = static_cast<std::uint32_t>(std::floor(count * weight[r] / total * (1 - 1e-12)));
    left -= shares[r].count;
  }
  for (; left > 0; --left) {
    std::size_t next = replicas;
    for (std::size_t r = 0; r < replicas; ++r) {
      if (weight[r] <= 0) continue;
      if (next == replicas || (shares[r].count + 1) * weight[next] < (shares[next].count + 1) * weight[r]) next = r;
    }
    ++shares[next].count;
  }
  std::uint32_t begin = 0;
  for (Share& share : shares) {
    share.begin = begin;
    begin += share.count;
  }
  return shares;
}

}  // namespace millrace
