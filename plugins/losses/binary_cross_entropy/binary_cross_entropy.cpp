#include "binary_cross_entropy_kernels.h"

#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/plugin.h"

namespace millrace::losses {
namespace {

// Mean over labels and images of -positive_weight * y * log p - (1 - y) * log(1 - p), with p = sigmoid(output) and a target y in
// 0 ... 1, as in torch.nn.BCEWithLogitsLoss with `pos_weight`.
class BinaryCrossEntropy final : public Loss {
 public:
  struct Params {
    std::vector<double> positive_weight;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("binary_cross_entropy")
        .applies("sigmoid")
        .text("Cross-entropy of each output's sigmoid, for multi-label images: one number from 0 to 1 per label.");
    d.target(LossTarget::values).numbers(0, 1).example("", {5}).example("positive_weight = [2, 0.5, 1]", {3});
    d.params.add("positive_weight", &Params::positive_weight)
        .text("weight of labels 1 relative to labels 0: one per label, or one for all, above 0; default: 1")
        .in_recipes();
    d.sum("correct");
    d.figure({.name = "accuracy",
              .text = "labels for which sigmoid(output) is on the target's side of 0.5",
              .better = LossFigure::Better::higher,
              .percent = true,
              .finish = [](std::span<const double> sums) { return quotient(sums[kCorrect], sums[kWeight]); }});
  }
  explicit BinaryCrossEntropy(const Params& params) : weights_(params.positive_weight.begin(), params.positive_weight.end()) {
    for (const float weight : weights_) {
      if (!(weight > 0)) fail(ErrorKind::usage, "positive_weight must be above 0, found {}", weight);
    }
  }

  void check(const LossSetting& setting) const override {
    if (setting.target.kind == TargetSpec::Kind::image) {
      fail(ErrorKind::usage, "it needs numbers from 0 to 1 for each image, but the source has target images");
    }
    if (weights_.size() < 2 || static_cast<std::int64_t>(weights_.size()) == setting.output[0]) return;
    fail(ErrorKind::usage, "positive_weight: {} numbers, and the network's output has {}", weights_.size(), setting.output[0]);
  }
  std::vector<float> constants(std::int64_t channels) const override {
    if (weights_.size() > 1) return weights_;
    return std::vector<float>(static_cast<std::size_t>(channels), weights_.empty() ? 1.0F : weights_.front());
  }
  void compute(LossPass& pass) const override {
    pass.row(BinaryCrossEntropyKernel{}, {pass.output(), pass.target(), pass.weight(), pass.constant()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight), pass.figure(kCorrect)});
  }

 private:
  static constexpr int kCorrect = 2;
  const std::vector<float> weights_;
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::BinaryCrossEntropy>(); }
