// Losses: the functions that training minimises, and metrics of a network's quality. A loss is written once, as kernels of values
// (portable.h), and runs on every backend.
//
//   // output, target, weight -> gradient, loss, weight                       in absolute_error_kernels.h
//   struct AbsoluteErrorKernel {
//     static constexpr int kReads = 3, kWrites = 3;
//     template <class Row>
//     MILLRACE_KERNEL void operator()(Row& row) const {
//       const float weight = row.place_in(2);
//       const auto scale = static_cast<float>(weight / row.divisor());
//       row.each([&](auto c) { row.out(0, c, scale * math::sign(row.in(0, c) - row.in(1, c))); });
//       row.place_out(1, weight * row.sum([&](auto c) { return math::abs(row.in(0, c) - row.in(1, c)); }));
//       row.place_out(2, weight);
//     }
//   };
//   MILLRACE_LOSS_KERNELS(AbsoluteErrorKernel)
//
//   class AbsoluteError : public Loss {
//    public:
//     struct Params {};
//     static void describe(LossDescription<Params>& d) {
//       d.name("absolute_error").text("The sum of |output - target|.").target(LossTarget::values).example("", {5});
//     }
//     void compute(LossPass& pass) const override {
//       pass.row(AbsoluteErrorKernel{}, {pass.output(), pass.target(), pass.weight()},
//                {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight)});
//     }
//   };
//   MILLRACE_PLUGIN("absolute_error", "1.0", "The loss absolute_error.") { registry.add_loss<AbsoluteError>(); }
//
// A *place* is a sample of a vector output or a pixel of a map. A loss writes one number for each place and each of its sums; the
// framework adds them over all places, replicas and steps. The first two sums are `loss`, the weighted losses, and `weight`,
// their weights; the reported loss is their quotient. The gradient is that of loss / divisor, where the divisor is the weight of
// the global batch, or 1 if gradients are accumulated.
//
// A loss over a whole image takes several calls with tensors between them. Dice: a row writes a map(), a sum adds it over an
// image's places to a total(), and a row reads that. A row without a tensor of places is computed once per image and writes its
// figure at the image's first place alone, so an earlier call must write the figure at every place.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/layer_plan.h"
#include "millrace/detail/loss_at.h"
#include "millrace/detail/split.h"
#include "millrace/detail/types.h"
#include "millrace/kernels/portable.h"
#include "millrace/params.h"
#include "millrace/sample.h"

namespace millrace {

class Batch;
class Network;
struct StageSite;

// What a loss compares the output with.
enum class LossTarget {
  labels,   // of samples: label(), second_label() and share() are read; the output is a vector
  classes,  // of pixels: target() has one number per place, -1 where nothing counts; the output is a map
  values,   // target() is the desired output: the sample's numbers, or its target image, scaled like the input
};

// The network and data with which a loss is used.
struct LossSetting {
  Shape output;               // of the network, for one sample
  ImageShape window;          // the network's input
  TargetSpec target;          // the images' targets
  std::uint32_t numbers = 0;  // per sample
  std::int64_t classes = 0;   // number of classes in the source's labels; 0: none
};

// A metric, computed from the sums of a pass.
struct LossFigure {
  enum class Better { higher, lower };
  std::string name, text;
  Better better = Better::lower;
  bool percent = false;  // a share from 0 to 1, printed as a percentage
  double (*finish)(std::span<const double> sums) = nullptr;
  std::int64_t least_outputs = 0;  // the metric is left out for networks with fewer outputs, where it is constant
  bool of_maps = false;            // meaningful for maps only; left out for vectors
  bool is_detail = false;          // see Figure
};
inline constexpr int kLoss = 0, kWeight = 1;  // every loss has these sums
double quotient(double above, double below);  // 0 if `below` is 0

// The tensors of a loss, and its calls, which run in each step. One call writes the gradient, and none reads it.
class LossPass : public PassCalls {
 public:
  using Kind = PassTensor::Kind;
  PassTensor output() const { return {Kind::output, 0}; }
  PassTensor d_output() const { return {Kind::d_output, 0}; }  // discarded where no gradient is wanted
  PassTensor weight() const { return {Kind::weight, 0}; }      // the sample's weight
  PassTensor label() const { return {Kind::label, 0}; }
  PassTensor second_label() const { return {Kind::second_label, 0}; }
  PassTensor share() const { return {Kind::share, 0}; }  // share of label() in a mixed image; 1: not mixed
  PassTensor target() const { return {Kind::target, 0}; }
  PassTensor constant() const { return {Kind::constant, 0}; }       // Loss::constants(), by channel
  PassTensor figure(int sum) const { return {Kind::figure, sum}; }  // by the sum's index
  PassTensor predicted() const { return {Kind::predicted, 0}; }     // a class index
  // Intermediate float32 tensors; write them before reading:
  PassTensor map(int index) const { return {Kind::map, index}; }      // shape of the output
  PassTensor total(int index) const { return {Kind::total, index}; }  // (samples, channels)
};

// A loss and its parameters. Immutable and thread-safe.
class Loss {
 public:
  virtual ~Loss() = default;
  const LossInfo& info() const { return *info_; }

  virtual void compute(LossPass& pass) const = 0;
  // Numbers by channel for kernels, such as class weights. Empty: none.
  virtual std::vector<float> constants(std::int64_t /*channels*/) const { return {}; }
  // Throws Error(usage) for outputs or targets that the loss cannot handle. The framework has already checked them against
  // LossTarget.
  virtual void check(const LossSetting& /*setting*/) const {}
  // Total weight of all places in some slots of a batch, as the kernels count it. By default the sum of the samples' weights,
  // times `places`.
  virtual double weight(const Batch& batch, Share slots, std::int64_t places) const;

 private:
  friend struct LossMaker;
  std::shared_ptr<const LossInfo> info_;
};

// Describes a loss in `static void describe(LossDescription<Params>&)`.
class LossAttributes {
 public:
  LossAttributes();
  LossAttributes& name(std::string_view value);
  LossAttributes& text(std::string_view value);
  LossAttributes& target(LossTarget value);
  LossAttributes& numbers(double low, double high);  // range of a sample's numbers; unlimited by default
  // A layer that the loss itself applies to the output, such as "softmax": networks omit it at their end.
  LossAttributes& applies(std::string_view layer);
  LossAttributes& sum(std::string_view value);  // appended after kLoss and kWeight
  LossAttributes& figure(LossFigure value);     // appended after `loss`
  LossAttributes& class_matrix();  // counts places by (class, predicted class). For LossTarget::classes; predicted() must be
                                   // written
  // Adds three sums per class after the others: the weights of samples that belong to it, that were predicted as it, and both.
  // For LossTarget::labels; predicted() must be written, -1 where no class is predicted. See ClassTotals.
  LossAttributes& class_totals();
  LossAttributes& example(std::string_view table, Shape output);

 private:
  friend struct LossMaker;
  std::shared_ptr<LossInfo> info_;
  std::vector<LossExample> examples_;
};

template <class Params>
struct LossDescription : LossAttributes {
  ParamSet<Params> params;
};

// Parameters of a stage that works with a loss: its Params derive from this, and its describe() calls this one's. The table holds
// `type`, the loss's name, `reduction` and the loss's own keys.
struct LossParams {
  Value loss;

  template <class Params>
  static void describe(ParamSet<Params>& set, std::string_view text) {
    set.add("loss", &LossParams::loss).text(text);
  }
};
struct StageLoss : LossAt {
  std::string name = {};  // for an auxiliary loss's metric: the layer, or else the loss
};
// Makes the loss of the stage's table. Throws Error(usage) with all mistakes in the table.
StageLoss make_loss(const LossParams& params, const StageSite& site);

// A loss that a training stage minimises in addition to the one of LossParams, in its list `auxiliary`.
struct AuxiliaryLoss {
  std::string output;
  double weight = 1;
  Value loss;

  static void describe(ParamSet<AuxiliaryLoss>& set);
};
// The stage's loss, then the auxiliary ones. Throws Error(usage) with all mistakes. REQUIRES: the site has a network.
std::vector<StageLoss> make_losses(const LossParams& params, const std::vector<AuxiliaryLoss>& auxiliary, const StageSite& site);
// The value that `output` names; empty for the network's result. Throws Error(usage) if no layer has it, or a layer reads it.
std::optional<LayerPort> find_loss_output(const Network& network, const std::string& name);

// Throws Error(usage) if the output does not fit the loss, or the pipeline has no such target.
void check_loss(const Loss& loss, const LossSetting& setting);
// Throws Error(data) naming a sample of slots [begin, begin + count) whose label is not a class of the output, or whose numbers
// the loss does not support.
void check_labels(const Loss& loss, const Batch& batch, std::uint32_t begin, std::uint32_t count, const Shape& output);
// Number of pixels of each class in the target images of these slots as the network sees them, weighted by sample.
std::vector<double> count_target_classes(const Batch& batch, Share slots);

}  // namespace millrace

#include "millrace/templates/loss_type.h"
