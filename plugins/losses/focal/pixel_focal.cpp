#include "millrace/batch.h"
#include "millrace/metrics/pixel_loss.h"
#include "millrace/plugin.h"
#include "millrace/util/class_weights.h"
#include "pixel_focal_kernels.h"

namespace millrace::losses {
namespace {

// Focal (focal.cpp) for each pixel: the weighted mean over the pixels of all images with a class. Pixels with the ignored id do
// not count.
class PixelFocal final : public PixelLoss {
 public:
  struct Params {
    double gamma = 2;
    std::vector<double> class_weights;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("pixel_focal")
        .applies("softmax")
        .text(
            "Focal loss, arXiv 1708.02002, of each pixel: (1 - p)^gamma times its cross-entropy, p the probability of its "
            "class.");
    d.example("", {4, 6, 5}).example("gamma = 0.5\nclass_weights = [0.5, 2, 1]", {3, 7, 7});
    d.params.add("gamma", &Params::gamma)
        .range(0)
        .text("how strongly well classified pixels are discounted; 0: cross-entropy")
        .in_recipes();
    d.params.add("class_weights", &Params::class_weights)
        .choices({"median-frequency"})
        .by_name()
        .text(ClassWeights::kTextOfPixels)
        .in_recipes();
    describe_pixels(d);
  }
  explicit PixelFocal(const Params& params) : gamma_(params.gamma), weights_(params.class_weights) {}

  void check(const LossSetting& setting) const override { weights_.check(setting); }
  std::vector<float> constants(std::int64_t channels) const override { return weights_.constants(channels); }
  double weight(const Batch& batch, Share slots, std::int64_t) const override { return weights_.of_label_images(batch, slots); }
  void compute(LossPass& pass) const override {
    pass.row(PixelFocalKernel{gamma_}, {pass.output(), pass.weight(), pass.target(), pass.constant()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight), pass.figure(kCorrect), pass.figure(kPixels),
              pass.predicted()});
  }

 private:
  const double gamma_;
  const ClassWeights weights_;
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::PixelFocal>(); }
