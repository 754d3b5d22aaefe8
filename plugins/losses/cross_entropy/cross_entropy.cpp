#include "cross_entropy_kernels.h"

#include "millrace/error.h"
#include "millrace/metrics/labelled_loss.h"
#include "millrace/plugin.h"

namespace millrace::losses {
namespace {

// For the softmax of the outputs: the sum over classes j of -w[j] * target[j] * log p[j]. The target of class j is (label == j) *
// (1 - s) + s / classes, with s the smoothing of Szegedy et al. 2015, arXiv 1512.00567, section 7. For a mixed image, share *
// (label == j) + (1 - share) * (second label == j) replaces (label == j).
class CrossEntropy final : public LabelledLoss {
 public:
  struct Params : LabelledLoss::Params {
    double label_smoothing = 0;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("cross_entropy").applies("softmax").text("Cross-entropy of the outputs' softmax, for images of one class each.");
    d.example("", {10}).example("label_smoothing = 0.1", {23}).example("class_weights = [0.5, 2, 1]\nlabel_smoothing = 0.2", {3});
    d.params.add("label_smoothing", &Params::label_smoothing)
        .range(0, 1)
        .text("share of each label's probability spread evenly over all classes")
        .in_recipes();
    describe_labelled(d);
  }
  explicit CrossEntropy(const Params& params) : LabelledLoss(params), smoothing_(params.label_smoothing) {
    if (smoothing_ == 1) fail(ErrorKind::usage, "label_smoothing = 1 makes all labels alike, so that nothing is learned");
  }

  void compute(LossPass& pass) const override { row(pass, CrossEntropyKernel{smoothing_}); }

 private:
  const double smoothing_;
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::CrossEntropy>(); }
