// Metrics of one of several labels per image.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace millrace {

// One label of one image.
struct LabelScore {
  float score = 0;  // larger is more certain; NaN is the least certain
  bool has = false, predicted = false;
};

// Counts of images and the metrics computed from them. Undefined metrics are empty: recall of a label that no image has,
// precision of one that is never predicted.
struct LabelFigures {
  std::size_t count = 0, having = 0, predicted = 0, right = 0;  // right: present and predicted
  // The area below precision over recall, in steps: sum over distinct scores, the highest first, of precision times the gain of
  // recall. As scikit-learn's average_precision_score.
  std::optional<double> average_precision;

  static LabelFigures of(std::span<const LabelScore> scores);

  std::optional<double> precision() const { return share(right, predicted); }
  std::optional<double> recall() const { return share(right, having); }
  std::optional<double> f1() const { return share(2 * right, having + predicted); }

 private:
  static std::optional<double> share(std::size_t part, std::size_t of) {
    if (of == 0) return std::nullopt;
    return static_cast<double>(part) / static_cast<double>(of);
  }
};

}  // namespace millrace
