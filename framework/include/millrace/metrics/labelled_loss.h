// The shared part of losses for images with one class each: class weights, mixed images, accuracy (accuracy.h) and metrics by
// class (class_matrix.h). The kernel's half is in labelled_row.h.
//
//   class Hinge final : public LabelledLoss {
//    public:
//     struct Params : LabelledLoss::Params { double margin = 1; };
//     static void describe(LossDescription<Params>& d) {
//       d.name("hinge").text("...").example("", {10});
//       describe_labelled(d);
//       d.params.add("margin", &Params::margin).text("...");
//     }
//     explicit Hinge(const Params& params) : LabelledLoss(params), margin_(params.margin) {}
//     void compute(LossPass& pass) const override { row(pass, HingeKernel{margin_}); }
//     ...
//   };
#pragma once

#include "millrace/metrics/accuracy.h"
#include "millrace/metrics/class_matrix.h"
#include "millrace/util/class_weights.h"

namespace millrace {

// Immutable and thread-safe.
class LabelledLoss : public Loss {
 public:
  struct Params {
    std::vector<double> class_weights;
  };

  std::vector<float> constants(std::int64_t channels) const override { return weights_.constants(channels); }
  void check(const LossSetting& setting) const override { weights_.check(setting); }
  double weight(const Batch& batch, Share slots, std::int64_t /*places*/) const override {
    return weights_.of_labels(batch, slots);
  }

 protected:
  explicit LabelledLoss(const Params& params) : weights_(params.class_weights) {}

  // Adds sums, metrics and `class_weights`. D: a LossDescription of parameters that derive from Params.
  template <class D>
  static void describe_labelled(D& d) {
    d.target(LossTarget::labels);
    d.params.add("class_weights", &Params::class_weights).choices({"balanced"}).by_name().text(ClassWeights::kText);
    Accuracy::describe(d);
    d.class_totals();
    describe_class_figures<Accuracy::kImages + 1, ClassTotals>(d);
  }
  // Runs one kernel that computes everything, on the tensors listed in labelled_row.h.
  template <class Kernel>
  static void row(LossPass& pass, const Kernel& kernel) {
    pass.row(kernel, {pass.output(), pass.weight(), pass.label(), pass.second_label(), pass.share(), pass.constant()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight), pass.figure(Accuracy::kCorrect),
              pass.figure(Accuracy::kCorrect5), pass.figure(Accuracy::kImages), pass.predicted()});
  }

 private:
  const ClassWeights weights_;
};

}  // namespace millrace
