#include "pixel_cross_entropy_kernels.h"

#include "millrace/batch.h"
#include "millrace/metrics/pixel_loss.h"
#include "millrace/plugin.h"
#include "millrace/util/class_weights.h"

namespace millrace::losses {
namespace {

// The weighted mean over the pixels of all images with a class. Pixels with the ignored id do not count.
class PixelCrossEntropy final : public PixelLoss {
 public:
  struct Params {
    std::vector<double> class_weights;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("pixel_cross_entropy").applies("softmax").text("Cross-entropy of each pixel's softmax, for images of class indices.");
    d.example("", {4, 6, 5}).example("class_weights = [0.5, 2, 1]", {3, 7, 7});
    d.params.add("class_weights", &Params::class_weights)
        .choices({"median-frequency"})
        .by_name()
        .text(ClassWeights::kTextOfPixels)
        .in_recipes();
    describe_pixels(d);
  }
  explicit PixelCrossEntropy(const Params& params) : weights_(params.class_weights) {}

  void check(const LossSetting& setting) const override { weights_.check(setting); }
  std::vector<float> constants(std::int64_t channels) const override { return weights_.constants(channels); }
  double weight(const Batch& batch, Share slots, std::int64_t) const override { return weights_.of_label_images(batch, slots); }
  void compute(LossPass& pass) const override {
    pass.row(PixelCrossEntropyKernel{}, {pass.output(), pass.weight(), pass.target(), pass.constant()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight), pass.figure(kCorrect), pass.figure(kPixels),
              pass.predicted()});
  }

 private:
  const ClassWeights weights_;
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::PixelCrossEntropy>(); }
