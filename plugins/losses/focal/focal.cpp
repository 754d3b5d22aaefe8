#include "focal_kernels.h"

#include "millrace/metrics/labelled_loss.h"
#include "millrace/plugin.h"

namespace millrace::losses {
namespace {

// Lin et al. 2017, arXiv 1708.02002, for the softmax of the outputs: -w[label] * (1 - p)^gamma * log p, with p the probability of
// the label. The paper's alpha is w. For a mixed image, the mean over its two labels, weighted by their shares.
class Focal final : public LabelledLoss {
 public:
  struct Params : LabelledLoss::Params {
    double gamma = 2;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("focal").applies("softmax").text(
        "Focal loss, arXiv 1708.02002: (1 - p)^gamma times an image's cross-entropy, p the probability of its class.");
    d.example("", {10}).example("gamma = 0.5\nclass_weights = [0.5, 2, 1]", {3});
    d.params.add("gamma", &Params::gamma)
        .range(0)
        .text("how strongly well classified images are discounted; 0: cross-entropy")
        .in_recipes();
    describe_labelled(d);
  }
  explicit Focal(const Params& params) : LabelledLoss(params), gamma_(params.gamma) {}

  void compute(LossPass& pass) const override { row(pass, FocalKernel{gamma_}); }

 private:
  const double gamma_;
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::Focal>(); }
