// Losses: what training minimises, and the figures that tell how good a network is. A loss is written once, as kernels of values
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
// A *place* is a sample of a vector output or a pixel of a map. A loss writes a number for each place and each of its sums; the
// framework adds them over all places, replicas and steps. The first two are `loss`, the weighted losses, and `weight`, their
// weights: their quotient is what is reported as loss. The gradient is that of loss / divisor, where the divisor is the weight of
// the global batch, or 1 where gradients are to be added up.
//
// A loss of a whole image takes several calls with tensors between them. Dice: a row writes a map(), a sum adds it up over an
// image's places to a total(), a row reads that. A row without a tensor of places is computed once an image and writes a figure
// at the image's first place alone, so a call before it has to write the figure at every place.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/layer_plan.h"
#include "millrace/detail/split.h"
#include "millrace/detail/types.h"
#include "millrace/kernels/portable.h"
#include "millrace/params.h"
#include "millrace/sample.h"

namespace millrace {

class Batch;

// What the output is compared with.
enum class LossTarget {
  labels,   // of samples. label(), second_label() and share() are read; the output is a vector
  classes,  // of pixels. target() is one number a place, -1 where nothing counts; the output is a map
  values,   // target() is what the output should be: the sample's numbers, or its target image, scaled as the input is
};

// What a loss meets in a pipeline, before it runs.
struct LossSetting {
  Shape output;               // of the network, for one sample
  ImageShape window;          // of the network's input
  TargetSpec target;          // of the images
  std::uint32_t numbers = 0;  // of each sample
  std::int64_t classes = 0;   // that the source's labels may name; 0: it has none
};

// A figure, made from the sums of a pass.
struct LossFigure {
  enum class Better { higher, lower };
  std::string name, text;
  Better better = Better::lower;
  bool percent = false;  // a share from 0 to 1, shown in percent
  double (*finish)(std::span<const double> sums) = nullptr;
  std::int64_t least_outputs = 0;  // a network of fewer ones always has the same figure, which is left out
  bool of_maps = false;            // it means nothing of a vector's numbers, and is left out there
  bool is_detail = false;          // as of Figure
};
inline constexpr int kLoss = 0, kWeight = 1;  // the sums that every loss has
double quotient(double above, double below);  // 0 where `below` is 0

// The tensors of a loss, and what it computes with them in each step. The gradient is written by one call, and not read.
class LossPass : public PassCalls {
 public:
  using Kind = PassTensor::Kind;
  PassTensor output() const { return {Kind::output, 0}; }
  PassTensor d_output() const { return {Kind::d_output, 0}; }  // lost where no gradient is wanted
  PassTensor weight() const { return {Kind::weight, 0}; }      // of the sample
  PassTensor label() const { return {Kind::label, 0}; }
  PassTensor second_label() const { return {Kind::second_label, 0}; }
  PassTensor share() const { return {Kind::share, 0}; }  // of label() in a mixed image; 1: it is not mixed
  PassTensor target() const { return {Kind::target, 0}; }
  PassTensor constant() const { return {Kind::constant, 0}; }       // Loss::constants(), by channel
  PassTensor figure(int sum) const { return {Kind::figure, sum}; }  // the index of a sum
  PassTensor predicted() const { return {Kind::predicted, 0}; }     // a class
  // Float32 between calls, written before it is read:
  PassTensor map(int index) const { return {Kind::map, index}; }      // of the output's shape
  PassTensor total(int index) const { return {Kind::total, index}; }  // (samples, channels)
};

// A loss with its parameters. Immutable and thread-safe.
class Loss {
 public:
  virtual ~Loss() = default;
  const LossInfo& info() const { return *info_; }

  virtual void compute(LossPass& pass) const = 0;
  // Numbers by channel that kernels read, such as weights of classes. Empty: none.
  virtual std::vector<float> constants(std::int64_t /*channels*/) const { return {}; }
  // Throws Error(usage) for an output or target that it cannot take. The framework has checked what LossTarget says.
  virtual void check(const LossSetting& /*setting*/) const {}
  // The weight of all places of some slots of a batch, as the kernels count it. By default the samples' weights times places.
  virtual double weight(const Batch& batch, Share slots, std::int64_t places) const;

 private:
  friend struct LossMaker;
  std::shared_ptr<const LossInfo> info_;
};

// What a loss says about itself, in `static void describe(LossDescription<Params>&)`.
class LossAttributes {
 public:
  LossAttributes();
  LossAttributes& name(std::string_view value);
  LossAttributes& text(std::string_view value);
  LossAttributes& target(LossTarget value);
  LossAttributes& numbers(double low, double high);  // those of a sample that it takes; any unless said
  // A layer that the loss computes of the output itself, "softmax": a network leaves it out at its end.
  LossAttributes& applies(std::string_view layer);
  LossAttributes& sum(std::string_view value);  // one more, after kLoss and kWeight
  LossAttributes& figure(LossFigure value);     // one more, after `loss`
  LossAttributes& class_matrix();  // counts places by (class, predicted class). For LossTarget::classes: predicted() is written
  // Adds up by class, after the sums: the weights of samples that belong to it, were predicted as it, and both. For
  // LossTarget::labels: predicted() is written, -1 where no class is predicted. See ClassTotals.
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

}  // namespace millrace

#include "millrace/detail/loss_type.h"
#include "millrace/detail/stage_loss.h"
