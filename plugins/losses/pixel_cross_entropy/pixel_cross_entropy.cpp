#include "pixel_cross_entropy_kernels.h"

#include <cmath>

#include "millrace/class_weights.h"
#include "millrace/plugin.h"

namespace millrace::losses {
namespace {

// The weighted mean over the pixels of all images that have a class. Pixels of the ignored id count nowhere.
class PixelCrossEntropy final : public Loss {
 public:
  struct Params {
    std::vector<double> class_weights;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("pixel_cross_entropy").text("Cross-entropy of the softmax of each pixel's outputs, for images of class indices.");
    d.target(LossTarget::classes).example("", {4, 6, 5}).example("class_weights = [0.5, 2, 1]", {3, 7, 7});
    d.params.add("class_weights", &Params::class_weights).text(ClassWeights::kText);
    d.sum("correct").sum("pixels").class_matrix();
    d.figure({.name = "accuracy",
              .text = "pixels whose class has the largest output",
              .better = LossFigure::Better::higher,
              .percent = true,
              .finish = [](std::span<const double> sums) { return quotient(sums[kCorrect], sums[kPixels]); }});
    d.figure({.name = "mean_accuracy",
              .text = "the same of each class, averaged over classes that occur",
              .better = LossFigure::Better::higher,
              .percent = true,
              .finish = mean_accuracy});
    d.figure({.name = "mean_iou",
              .text = "intersection over union of each class, averaged over classes that occur",
              .better = LossFigure::Better::higher,
              .percent = true,
              .finish = mean_iou});
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
  static constexpr int kCorrect = 2, kPixels = 3;

  // Means over the classes that occur of `part`(right, pixels of the class, pixels predicted as it).
  template <class Part>
  static double mean(std::span<const double> sums, const Part& part) {
    const std::span<const double> matrix = sums.subspan(kPixels + 1);
    const auto classes = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(matrix.size()))));
    double total = 0, occurring = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      double of = 0, as = 0;
      for (std::size_t other = 0; other < classes; ++other) {
        of += matrix[c * classes + other];
        as += matrix[other * classes + c];
      }
      if (of == 0) continue;
      total += part(matrix[c * classes + c], of, as);
      occurring += 1;
    }
    return quotient(total, occurring);
  }
  static double mean_accuracy(std::span<const double> sums) {
    return mean(sums, [](double right, double of, double) { return right / of; });
  }
  static double mean_iou(std::span<const double> sums) {
    return mean(sums, [](double right, double of, double as) { return right / (of + as - right); });
  }

  const ClassWeights weights_;
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::PixelCrossEntropy>(); }
