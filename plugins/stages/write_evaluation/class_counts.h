// Counts, over a pass, how often samples of each class were predicted as each class.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "millrace/metrics/class_matrix.h"

namespace millrace {

// With many classes, only pairs that occur take memory.
class ClassCounts {
 public:
  static constexpr std::size_t kMaxDense = 512;

  explicit ClassCounts(std::size_t classes) : classes_(classes), dense_(classes <= kMaxDense ? classes * classes : 0) {}

  void add(std::size_t of, std::size_t as, double count) {
    const std::size_t at = of * classes_ + as;
    (dense_.empty() ? sparse_[at] : dense_[at]) += count;
  }
  std::span<double> dense() { return dense_; }  // by (class, predicted class). REQUIRES: at most kMaxDense classes
  void clear() {
    std::ranges::fill(dense_, 0.0);
    sparse_ = {};
  }

  // Those above 0, sorted by class, then by predicted class.
  std::vector<ClassMatrix::Cell> cells() const {
    std::vector<ClassMatrix::Cell> cells;
    const auto take = [&](std::size_t at, double count) {
      if (count > 0) cells.push_back({static_cast<std::uint32_t>(at / classes_), static_cast<std::uint32_t>(at % classes_), count});
    };
    for (std::size_t at = 0; at < dense_.size(); ++at) take(at, dense_[at]);
    for (const auto& [at, count] : sparse_) take(at, count);
    const auto place = [](const ClassMatrix::Cell& cell) { return std::pair(cell.of, cell.as); };
    if (dense_.empty()) std::ranges::sort(cells, {}, place);
    return cells;
  }

  // Memory in bytes for this many samples, including cells() and the sums of a ClassMatrix.
  static std::size_t memory_bound(std::size_t classes, std::uint64_t samples) {
    constexpr std::size_t kEntry = 56;  // per map entry, with its share of the table
    const bool is_dense = classes <= kMaxDense;
    const std::size_t pairs = is_dense ? classes * classes : std::min<std::size_t>(classes * classes, samples);
    return pairs * ((is_dense ? sizeof(double) : kEntry) + sizeof(ClassMatrix::Cell)) + 3 * classes * sizeof(double);
  }

 private:
  std::size_t classes_;
  std::vector<double> dense_;
  std::unordered_map<std::size_t, double> sparse_;
};

}  // namespace millrace
