#include "millrace/backend/segments.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace millrace {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// By node: the last node that reads its output; nodes.size() if none does.
std::vector<int> last_readers(const std::vector<Node>& nodes) {
  const int count = static_cast<int>(nodes.size());
  std::map<int, int> made_by;
  for (int i = 0; i < count; ++i) made_by[nodes[static_cast<std::size_t>(i)].output] = i;
  std::vector<int> last(nodes.size(), count);
  for (int i = 0; i < count; ++i) {
    for (const LayerPort input : nodes[static_cast<std::size_t>(i)].inputs) {
      if (const auto maker = made_by.find(input.layer); maker != made_by.end()) last[static_cast<std::size_t>(maker->second)] = i;
    }
  }
  return last;
}

class Cutter {
 public:
  Cutter(const std::vector<Node>& nodes, std::span<const std::size_t> bytes)
      : bytes_(bytes.begin(), bytes.end()), size_(nodes.size()), last_read_(size_ + 1) {
    const std::vector<int> last = last_readers(nodes);
    for (std::size_t i = 0; i < size_; ++i) last_read_[static_cast<std::size_t>(last[i])].push_back(i);
  }

  // Ends of segments that need at most `peak` bytes at once; empty if impossible. Among all ways to divide the nodes before some
  // place, only the one that keeps least matters for the rest.
  std::vector<int> within(std::size_t peak) const {
    std::vector<std::size_t> least(size_ + 1, kNever), from(size_ + 1, 0);
    least[0] = 0;
    for (std::size_t begin = 0; begin < size_; ++begin) {
      if (least[begin] == kNever) continue;
      std::size_t inside = least[begin], kept_of_it = 0;  // what is read after the segment
      for (std::size_t end = begin + 1; end <= size_; ++end) {
        inside += bytes_[end - 1];  // includes the kept part of the segment
        if (inside > peak) break;
        kept_of_it += bytes_[end - 1];
        for (const std::size_t maker : last_read_[end - 1]) kept_of_it -= maker >= begin ? bytes_[maker] : 0;
        const std::size_t kept = least[begin] + kept_of_it;
        if (kept >= least[end]) continue;
        least[end] = kept;
        from[end] = begin;
      }
    }
    if (least[size_] == kNever) return {};
    std::vector<int> ends;
    for (std::size_t end = size_; end > 0; end = from[end]) ends.push_back(static_cast<int>(end));
    std::reverse(ends.begin(), ends.end());
    return ends;
  }

 private:
  std::vector<std::size_t> bytes_;
  std::size_t size_;
  std::vector<std::vector<std::size_t>> last_read_;  // by node: those whose outputs it reads last
};

}  // namespace

std::vector<int> plan_segments(const std::vector<Node>& nodes, std::span<const std::size_t> bytes) {
  if (nodes.empty()) return {};
  const Cutter cutter(nodes, bytes);
  std::size_t enough = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}), too_little = 0;
  while (enough - too_little > 1 + enough / 1024) {
    const std::size_t middle = too_little + (enough - too_little) / 2;
    (cutter.within(middle).empty() ? too_little : enough) = middle;
  }
  return cutter.within(enough);
}

std::vector<bool> kept_outputs(const std::vector<Node>& nodes, std::span<const int> segment_ends) {
  const std::vector<int> last = last_readers(nodes);
  std::vector<bool> kept(nodes.size());
  std::size_t begin = 0;
  for (const int end : segment_ends) {
    for (; begin < static_cast<std::size_t>(end); ++begin) kept[begin] = last[begin] >= end;
  }
  return kept;
}

}  // namespace millrace
