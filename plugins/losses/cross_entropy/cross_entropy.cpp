#include "cross_entropy_kernels.h"

#include "millrace/plugin.h"

namespace millrace::losses {
namespace {

// Of the softmax of the outputs. The target of class j is (label == j) * (1 - s) + s / classes, with s the smoothing of Szegedy
// et al. 2015, arXiv 1512.00567, section 7. Of a mixed image it is share * (label == j) + (1 - share) * (second label == j) in
// place of (label == j), and the label with the larger share counts for accuracy (of equal ones the first).
class CrossEntropy final : public Loss {
 public:
  struct Params {
    double label_smoothing = 0;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("cross_entropy").text("Cross-entropy of the softmax of the outputs, for images of one class each.");
    d.target(LossTarget::labels).example("", {10}).example("label_smoothing = 0.1", {23});
    d.params.add("label_smoothing", &Params::label_smoothing)
        .range(0, 1)
        .text("share of each label's probability that is spread evenly over all classes");
    d.sum("correct").sum("correct5");
    d.figure({.name = "accuracy",
              .text = "images whose class has the largest output",
              .better = LossFigure::Better::higher,
              .percent = true,
              .finish = [](std::span<const double> sums) { return quotient(sums[kCorrect], sums[kWeight]); }});
    d.figure({.name = "top5",
              .text = "images whose class is among the five largest outputs",
              .better = LossFigure::Better::higher,
              .percent = true,
              .finish = [](std::span<const double> sums) { return quotient(sums[kCorrect5], sums[kWeight]); }});
  }
  explicit CrossEntropy(const Params& params) : smoothing_(params.label_smoothing) {}

  void compute(LossPass& pass) const override {
    pass.row(CrossEntropyKernel{smoothing_}, {pass.output(), pass.weight(), pass.label(), pass.second_label(), pass.share()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight), pass.figure(kCorrect), pass.figure(kCorrect5)});
  }

 private:
  static constexpr int kCorrect = 2, kCorrect5 = 3;
  const double smoothing_;
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::CrossEntropy>(); }
