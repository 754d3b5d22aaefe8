// The kernel's half of labelled_loss.h. A LabelledLoss's kernel has these tensors:
//   reads   0: output, 1: weight of the sample, 2: label, 3: second label, 4: share of the label, 5: weights of classes
//   writes  0: gradient, 1: loss, 2: weight, 3: correct, 4: correct5, 5: images, 6: predicted class
//
//   struct HingeKernel {
//     static constexpr int kReads = kLabelledReads, kWrites = kLabelledWrites;
//     template <class Row>
//     MILLRACE_KERNEL void operator()(Row& row) const {
//       const LabelledRow<Row> at(row);
//       if (at.counts == 0) return at.put_nothing();
//       at.put(...);                                             // the sums, before the gradient
//       row.each([&](auto c) { row.out(0, c, static_cast<float>(at.scale() * ...)); });
//     }
//   };
#pragma once

#include <float.h>
#include <math.h>

#include "millrace/kernels/kernel.h"

namespace millrace {

inline constexpr int kLabelledReads = 6, kLabelledWrites = 7;
inline constexpr std::int32_t kCounted = 5;  // the metric top5: the label is among the first five of a sorted row

// A place as a kernel sees it. Sums are in double, since they may have a thousand classes.
template <class Row>
struct LabelledRow {
  Row& row;
  double counts = 0;                   // the sample's weight
  std::int64_t label = 0, second = 0;  // equal unless the image is mixed
  double share = 1;                    // share of `label`; the other label has the rest

  MILLRACE_KERNEL explicit LabelledRow(Row& of) : row(of), counts(static_cast<double>(of.place_in(1))) {
    if (counts == 0) return;  // its labels are undefined
    share = static_cast<double>(row.place_in(4));
    label = static_cast<std::int64_t>(row.place_in(2));
    second = share < 1 ? static_cast<std::int64_t>(row.place_in(3)) : label;
  }

  template <class Channel>
  MILLRACE_KERNEL double output(Channel c) const {
    return static_cast<double>(row.in(0, c));
  }
  template <class Channel>
  MILLRACE_KERNEL double class_weight(Channel c) const {
    return static_cast<double>(row.in(5, c));
  }
  // share * of_label + (1 - share) * of_second
  MILLRACE_KERNEL double mixed(double of_label, double of_second) const {
    return share < 1 ? share * of_label + (1 - share) * of_second : of_label;
  }
  // The logarithm of the sum of exp(output); the softmax is log p[c] = output(c) - log_total().
  MILLRACE_KERNEL double log_total() const {
    const double largest = static_cast<double>(row.largest([&](auto c) { return row.in(0, c); }));
    return largest + log(row.sum([&](auto c) { return exp(output(c) - largest); }));
  }
  MILLRACE_KERNEL double scale() const { return counts / row.divisor(); }  // for the gradient

  // Writes the sums. `loss`: with class weights, without the sample's weight.
  MILLRACE_KERNEL void put(double loss) const {
    const auto images = static_cast<float>(counts);
    const std::int32_t before = rank();
    row.place_out(1, static_cast<float>(counts * loss));
    row.place_out(2, static_cast<float>(counts * mixed(class_weight(label), class_weight(second))));
    row.place_out(3, before < 1 ? images : 0.0F);
    row.place_out(4, before < kCounted ? images : 0.0F);
    row.place_out(5, images);
    row.place_out(6, before == 0 ? static_cast<float>(named()) : predicted());
  }
  MILLRACE_KERNEL void put_nothing() const {
    row.each([&](auto c) { row.out(0, c, 0.0F); });
    for (int i = 1; i < kLabelledWrites; ++i) row.place_out(i, 0.0F);
  }

 private:
  MILLRACE_KERNEL std::int64_t named() const { return share < 0.5 ? second : label; }
  // The first of the largest outputs; -1 if one is NaN or infinite, as in rank().
  MILLRACE_KERNEL float predicted() const {
    const float largest = row.largest([&](auto c) { return row.in(0, c); });
    return -row.largest([&](auto c) {
      const float value = row.in(0, c);
      return !(value <= FLT_MAX) ? 1.0F : value == largest ? -static_cast<float>(c) : -1e9F;
    });
  }
  // Number of outputs before the label's when sorted in descending order; equal outputs keep their order. If one is NaN or
  // infinite, the label comes after all places that count: a diverged network scores 0 in all metrics. For a mixed image the
  // label with the larger share counts, the first if equal.
  MILLRACE_KERNEL std::int32_t rank() const {
    const std::int64_t of = named();
    const float mine = row.in(0, of);
    return row.sum([&](auto c) -> std::int32_t {
      const float value = row.in(0, c);
      if (!(value <= FLT_MAX)) return kCounted;
      return value > mine || (c < of && value == mine) ? 1 : 0;
    });
  }
};

}  // namespace millrace
