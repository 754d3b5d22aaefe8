#include "dice_kernels.h"
#include "millrace/batch.h"
#include "millrace/metrics/pixel_loss.h"
#include "millrace/plugin.h"

namespace millrace::losses {
namespace {

// Milletari et al. 2016, arXiv 1606.04797, with a softmax over several classes and with p and t in the divisor instead of their
// squares as in the paper. The mean over images: each has its sample's weight, however many of its pixels count.
class Dice final : public PixelLoss {
 public:
  struct Params {
    double smooth = 1;
    std::string over = "all";
  };
  static void describe(LossDescription<Params>& d) {
    d.name("dice").applies("softmax").text(
        "1 - Dice overlap of each class in an image, from softmax probabilities, for images of class indices.");
    d.example("", {4, 6, 5}).example("smooth = 0.5\nover = \"present\"", {3, 7, 7});
    d.params.add("smooth", &Params::smooth)
        .range(0)
        .text(
            "added to numerator and denominator: damps classes of few pixels; classes neither present nor predicted have no loss")
        .in_recipes();
    d.params.add("over", &Params::over)
        .choices({"all", "present"})
        .text("classes averaged: all, or those in the image")
        .in_recipes();
    describe_pixels(d);
  }
  explicit Dice(const Params& params) : totals_{static_cast<float>(params.smooth), params.over == "present"} {}

  double weight(const Batch& batch, Share slots, std::int64_t) const override { return Loss::weight(batch, slots, 1); }
  void compute(LossPass& pass) const override {
    const PassTensor marks = pass.map(0), shared = pass.total(0), both = pass.total(1), pixels = pass.total(2);
    pass.row(DiceMarks{}, {pass.output(), pass.weight(), pass.target()},
             {marks, pass.figure(kLoss), pass.figure(kWeight), pass.figure(kCorrect), pass.figure(kPixels), pass.predicted()});
    pass.sum(DiceShared{}, marks, shared);
    pass.sum(DiceBoth{}, marks, both);
    pass.sum(DicePixels{}, marks, pixels);
    pass.row(DiceOfImage{totals_}, {shared, both, pixels, pass.weight()}, {pass.figure(kLoss), pass.figure(kWeight)});
    pass.row(DiceGradient{totals_}, {pass.output(), pass.weight(), pass.target(), shared, both, pixels}, {pass.d_output()});
  }

 private:
  const DiceTotals totals_;
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::Dice>(); }
