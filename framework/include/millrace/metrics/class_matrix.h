// Counts of predictions by class, and metrics computed from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "millrace/loss.h"

namespace millrace {

// Numbers of pixels or images that belong to each class, that were predicted as it, and both. Quotients with a denominator of 0
// are 0.
//
// Means are macro averages: mean_accuracy over the classes that occur, which is scikit-learn's balanced_accuracy_score; the
// others over the classes that occur or are predicted, like scikit-learn's precision_score, f1_score and jaccard_score with
// average="macro", zero_division=0. mean_accuracy, mean_iou and weighted_iou are the mean accuracy, mean IU and frequency
// weighted IU of Long, Shelhamer and Darrell, "Fully convolutional networks for semantic segmentation", arXiv 1411.4038, section
// 5.
class ClassTotals {
 public:
  explicit ClassTotals(std::span<const double> totals);  // by [kind][class]. REQUIRES: three kinds

  std::size_t classes() const { return totals_.size() / 3; }
  double occurring(std::size_t c) const { return totals_[c]; }              // belongs to the class
  double predicted(std::size_t c) const { return totals_[classes() + c]; }  // predicted as the class
  double right(std::size_t c) const { return totals_[2 * classes() + c]; }  // both
  double total() const;                                                     // over all classes

  // Metrics of one class. Its accuracy is also called recall.
  double accuracy(std::size_t c) const { return quotient(right(c), occurring(c)); }
  double precision(std::size_t c) const { return quotient(right(c), predicted(c)); }
  double f1(std::size_t c) const { return quotient(2 * right(c), occurring(c) + predicted(c)); }
  double iou(std::size_t c) const { return quotient(right(c), occurring(c) + predicted(c) - right(c)); }

  double accuracy() const;  // over all
  double mean_accuracy() const;
  double mean_precision() const { return mean(&ClassTotals::precision); }
  double mean_f1() const { return mean(&ClassTotals::f1); }
  double mean_iou() const { return mean(&ClassTotals::iou); }
  double weighted_iou() const;  // weighted by the frequency of each class

  // The single class predicted everywhere although several occur; classes() if there is none.
  std::size_t only_predicted() const;

 protected:
  explicit ClassTotals(std::size_t classes) : totals_(3 * classes) {}
  void add(std::size_t of, std::size_t as, double count);

 private:
  double mean(double (ClassTotals::*figure)(std::size_t) const) const;

  std::vector<double> totals_;
};

// Counts by [class][predicted class]. A view; the caller owns the counts.
class ClassMatrix : public ClassTotals {
 public:
  struct Cell {
    std::uint32_t of = 0, as = 0;
    double count = 0;
  };

  explicit ClassMatrix(std::span<const double> counts);  // REQUIRES: a square number of counts
  // A sparse table, for many classes whose pairs mostly never occur. REQUIRES: cells sorted by `of`, then by `as`.
  ClassMatrix(std::size_t classes, std::span<const Cell> cells);

  double count(std::size_t of, std::size_t as) const;

 private:
  std::span<const double> counts_;  // empty: see cells_
  std::span<const Cell> cells_;

  friend void append_confusion(std::string_view begin, const ClassMatrix& matrix, const std::vector<std::string>& names,
                               const std::function<void(std::string_view rows)>& write);
};

// Rows of CSV files (RFC 4180), each prefixed by `begin`: one for each pair of classes, and one for each class. Classes without a
// name are written as numbers. Shares are relative to the class's count. With more than kMaxWholeClasses classes, pairs that
// never occur are left out. `write` receives the rows class by class.
inline constexpr std::string_view kConfusionColumns = "class,predicted,count,share";
inline constexpr std::string_view kClassColumns = "class,count,accuracy,precision,f1,iou";
inline constexpr std::size_t kMaxWholeClasses = 200;
void append_confusion(std::string_view begin, const ClassMatrix& matrix, const std::vector<std::string>& names,
                      const std::function<void(std::string_view rows)>& write);
void append_classes(std::string& csv, std::string_view begin, const ClassTotals& totals, const std::vector<std::string>& names);

// Adds the metrics mean_accuracy, mean_precision and mean_f1 to a loss with a Table after kSums sums, including `loss` and
// `weight`: ClassTotals, or ClassMatrix, which adds mean_iou and weighted_iou. D: a LossDescription.
template <std::size_t kSums, class Table, class D>
void describe_class_figures(D& d) {
  using Sums = std::span<const double>;
  const auto add = [&d](const char* name, const char* text, double (*finish)(Sums), bool is_detail = false) {
    d.figure({.name = name,
              .text = text,
              .better = LossFigure::Better::higher,
              .percent = true,
              .finish = finish,
              .is_detail = is_detail});
  };
  add("mean_accuracy", "accuracy of each class, averaged over classes that occur",
      [](Sums sums) { return Table(sums.subspan(kSums)).mean_accuracy(); });
  add("mean_precision", "precision of each class, averaged over classes that occur or are predicted",
      [](Sums sums) { return Table(sums.subspan(kSums)).mean_precision(); }, true);
  add("mean_f1", "F1 of each class, averaged over classes that occur or are predicted",
      [](Sums sums) { return Table(sums.subspan(kSums)).mean_f1(); }, true);
  if constexpr (std::is_same_v<Table, ClassMatrix>) {
    add("mean_iou", "intersection over union of each class, averaged over classes that occur or are predicted",
        [](Sums sums) { return Table(sums.subspan(kSums)).mean_iou(); });
    add("weighted_iou", "intersection over union of each class, averaged by how often classes occur",
        [](Sums sums) { return Table(sums.subspan(kSums)).weighted_iou(); });
  }
}

}  // namespace millrace
