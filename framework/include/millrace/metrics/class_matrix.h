// How often what belongs to each class was predicted as each class, and the figures made of that.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/loss.h"

namespace millrace {

// Counts by [class][predicted class]: pixels or images. A view; the counts are the caller's. Means are over the classes that
// occur; a quotient of nothing is 0. mean_accuracy, mean_iou and weighted_iou are the mean accuracy, mean IU and frequency
// weighted IU of Long, Shelhamer and Darrell, "Fully convolutional networks for semantic segmentation", arXiv 1411.4038,
// section 5.
class ClassMatrix {
 public:
  explicit ClassMatrix(std::span<const double> counts);  // REQUIRES: a square number of counts

  std::size_t classes() const { return classes_; }
  double count(std::size_t of, std::size_t as) const { return counts_[of * classes_ + as]; }
  double occurring(std::size_t c) const;  // what belongs to the class
  double predicted(std::size_t c) const;  // what was predicted as it
  double total() const;

  // Figures of one class. Its accuracy is also called recall.
  double accuracy(std::size_t c) const;   // right / occurring
  double precision(std::size_t c) const;  // right / predicted
  double f1(std::size_t c) const;         // 2 right / (occurring + predicted)
  double iou(std::size_t c) const;        // right / (occurring + predicted - right)

  double accuracy() const;  // of all
  double mean_accuracy() const { return mean(&ClassMatrix::accuracy); }
  double mean_f1() const { return mean(&ClassMatrix::f1); }
  double mean_iou() const { return mean(&ClassMatrix::iou); }
  double weighted_iou() const;  // by how often each class occurs

 private:
  double mean(double (ClassMatrix::*figure)(std::size_t) const) const;

  std::span<const double> counts_;
  std::size_t classes_;
};

// Rows of CSV files (RFC 4180), each after `begin`: a row for each pair of classes, and one for each class. Classes without a
// name are numbers. A share is that of the class's count.
inline constexpr std::string_view kConfusionColumns = "class,predicted,count,share";
inline constexpr std::string_view kClassColumns = "class,count,accuracy,precision,f1,iou";
void append_confusion(std::string& csv, std::string_view begin, const ClassMatrix& matrix, const std::vector<std::string>& names);
void append_classes(std::string& csv, std::string_view begin, const ClassMatrix& matrix, const std::vector<std::string>& names);

// The figures mean_accuracy, mean_iou and weighted_iou of a loss with a class matrix after kSums sums, `loss` and `weight`
// included. D: a LossDescription.
template <std::size_t kSums, class D>
void describe_class_figures(D& d) {
  using Finish = double (*)(std::span<const double>);
  const auto add = [&d](const char* name, const char* text, Finish finish) {
    d.figure({.name = name, .text = text, .better = LossFigure::Better::higher, .percent = true, .finish = finish});
  };
  add("mean_accuracy", "the same of each class, averaged over classes that occur",
      [](std::span<const double> sums) { return ClassMatrix(sums.subspan(kSums)).mean_accuracy(); });
  add("mean_iou", "intersection over union of each class, averaged over classes that occur",
      [](std::span<const double> sums) { return ClassMatrix(sums.subspan(kSums)).mean_iou(); });
  add("weighted_iou", "intersection over union of each class, averaged by how often classes occur",
      [](std::span<const double> sums) { return ClassMatrix(sums.subspan(kSums)).weighted_iou(); });
}

}  // namespace millrace
