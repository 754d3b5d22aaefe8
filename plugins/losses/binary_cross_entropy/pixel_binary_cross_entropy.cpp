#include "millrace/batch.h"
#include "millrace/error.h"
#include "millrace/metrics/pixel_loss.h"
#include "millrace/plugin.h"
#include "millrace/util/class_weights.h"
#include "pixel_binary_cross_entropy_kernels.h"

namespace millrace::losses {
namespace {

// Each class against all others: the mean over classes of the cross-entropy of p = sigmoid(output), whose target is 1 for the
// pixel's own class, times positive_weight, and 0 for the others. The mean over the pixels of all images with a class.
class PixelBinaryCrossEntropy final : public PixelLoss {
 public:
  struct Params {
    std::vector<double> positive_weight;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("pixel_binary_cross_entropy")
        .applies("sigmoid")
        .text(
            "Cross-entropy of the sigmoid of each output at each pixel, for images of class indices: each class against all "
            "others.");
    d.example("", {4, 6, 5}).example("positive_weight = [2, 0.5, 1]", {3, 7, 7});
    d.params.add("positive_weight", &Params::positive_weight)
        .text("weight of the pixel's own class relative to the others: one per class, or one for all, above 0; default: 1")
        .in_recipes();
    describe_pixels(d);
  }
  explicit PixelBinaryCrossEntropy(const Params& params)
      : weights_(params.positive_weight.begin(), params.positive_weight.end()), counts_({}) {
    for (const float weight : weights_) {
      if (!(weight > 0)) fail(ErrorKind::usage, "positive_weight must be above 0, found {}", weight);
    }
  }

  void check(const LossSetting& setting) const override {
    if (weights_.size() < 2 || static_cast<std::int64_t>(weights_.size()) == setting.output[0]) return;
    fail(ErrorKind::usage, "positive_weight: {} numbers, and the network's output has {} channels", weights_.size(),
         setting.output[0]);
  }
  std::vector<float> constants(std::int64_t channels) const override {
    if (weights_.size() > 1) return weights_;
    return std::vector<float>(static_cast<std::size_t>(channels), weights_.empty() ? 1.0F : weights_.front());
  }
  double weight(const Batch& batch, Share slots, std::int64_t) const override { return counts_.of_label_images(batch, slots); }
  void compute(LossPass& pass) const override {
    pass.row(PixelBinaryCrossEntropyKernel{}, {pass.output(), pass.weight(), pass.target(), pass.constant()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight), pass.figure(kCorrect), pass.figure(kPixels),
              pass.predicted()});
  }

 private:
  const std::vector<float> weights_;
  const ClassWeights counts_;  // all 1, to count pixels
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::PixelBinaryCrossEntropy>(); }
