// Stages, a layer and losses that plant non-finite values, at one step or in one sample.
#include <millrace/backend/backend.h>
#include <millrace/backend/network.h>
#include <millrace/batch.h>
#include <millrace/error.h>
#include <millrace/kernels/kernel_math.h>
#include <millrace/kernels/loss_elements.h>
#include <millrace/kernels/portable.h>
#include <millrace/layer.h>
#include <millrace/loss.h>
#include <millrace/plugin.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace {

// Overwrites a parameter or a running statistic, or the gradients of a bucket, before one step's update.
class Poison : public millrace::Stage {
 public:
  struct Params {
    std::int64_t step = 0;
    std::string parameter;
  };
  static void describe(millrace::StageDescription<Params>& d) {
    d.name("poison").text("Plants NaN before one step's update.");
    d.input(millrace::payload::kGradientBucket).output(millrace::payload::kGradientBucket).per_replica();
    d.params.add("step", &Params::step).text("from 1; 0: never");
    d.params.add("parameter", &Params::parameter).text("where; \"\": all gradients");
  }
  Poison(const Params& params, const millrace::StepContext& context) : params_(params), context_(context) {}

  void process(int, millrace::Packet packet, millrace::Output& output) override {
    const auto& bucket = static_cast<const millrace::GradientBucket&>(*packet.payload);
    if (static_cast<std::int64_t>(bucket.step) + 1 == params_.step && bucket.bucket + 1 == bucket.buckets) plant(bucket);
    output.emit(0, std::move(packet));
  }

 private:
  void plant(const millrace::GradientBucket& bucket) {
    if (bucket.ready) bucket.ready->wait();
    constexpr float value = std::numeric_limits<float>::quiet_NaN();
    if (params_.parameter.empty()) {
      for (std::size_t i = 0; i < bucket.elements; ++i) bucket.data[i] = value;
      return;
    }
    const int p = context_.network->find_parameter(params_.parameter);
    if (p < 0) millrace::fail(millrace::ErrorKind::usage, "no parameter '{}'", params_.parameter);
    const auto count = context_.network->parameters[static_cast<std::size_t>(p)].shape.elements();
    context_.replicas[static_cast<std::size_t>(context_.replica)]->write(
        millrace::kValue, p, std::vector<float>(static_cast<std::size_t>(count), value));
  }

  const Params params_;
  const millrace::StepContext context_;
};

constexpr std::int32_t kMarked = 9;  // the class of samples whose losses and gradients are corrupted
constexpr float kHuge = 1e20F;       // a finite gradient, larger than any other
constexpr float kLarge = 1e5F;       // larger values derive from it

// Corrupts the input of one sample in every epoch, or the input or class of one sample in the first epoch.
class PoisonInput : public millrace::SampleTransform {
 public:
  struct Params {
    std::int64_t index = -1, position = -1, noise_at = -1;
  };
  static void describe(millrace::StageDescription<Params>& d) {
    d.name("poison_input").text("Gives one sample noise without bounds, or a class that no other has.");
    d.params.add("index", &Params::index).text("of the sample in the source that gets the noise");
    d.params.add("position", &Params::position).text("in the first epoch, of the sample that gets the class");
    d.params.add("noise_at", &Params::noise_at).text("in the first epoch, the position of the sample that gets the noise");
  }
  PoisonInput(const Params& params, const millrace::StageSite&) : params_(params) {}
  void process(millrace::Sample& sample, millrace::Draw&) override {
    const std::int64_t position = sample.key.epoch == 0 ? static_cast<std::int64_t>(sample.key.position) : -2;
    if (static_cast<std::int64_t>(sample.key.index) == params_.index || position == params_.noise_at) {
      sample.noise = std::numeric_limits<float>::infinity();
    }
    if (params_.position >= 0) sample.label = position == params_.position ? kMarked : std::min(sample.label, kMarked - 1);
  }

 private:
  const Params params_;
};

// output, weight, label -> gradient, loss, weight. The gradient is finite everywhere.
struct PoisonLossKernel {
  static constexpr int kReads = 3, kWrites = 3;

  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float weight = row.place_in(1);
    const bool planted = weight != 0 && row.place_in(2) == static_cast<float>(kMarked);
    const float squares = row.sum([&](auto c) { return row.in(0, c) * row.in(0, c); });
    const auto scale = static_cast<float>(static_cast<double>(weight) / row.divisor());
    row.each([&](auto c) { row.out(0, c, scale * row.in(0, c)); });
    row.place_out(1, planted ? std::numeric_limits<float>::quiet_NaN() : 0.5F * weight * squares);
    row.place_out(2, weight);
  }
};

class PoisonLoss final : public millrace::Loss {
 public:
  struct Params {};
  static void describe(millrace::LossDescription<Params>& d) {
    d.name("poison_loss").text("Half the square of the outputs, and NaN for images of the marked class.");
    d.target(millrace::LossTarget::labels).example("", {10});
  }
  explicit PoisonLoss(const Params&) {}
  void compute(millrace::LossPass& pass) const override {
    pass.row(PoisonLossKernel{}, {pass.output(), pass.weight(), pass.label()},
             {pass.d_output(), pass.figure(millrace::kLoss), pass.figure(millrace::kWeight)});
  }
};

// Like poison_loss, but the loss and gradient are finite; the gradient is huge for images of the marked class.
struct HugeGradientKernel {
  static constexpr int kReads = 3, kWrites = 3;

  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float weight = row.place_in(1);
    const bool planted = weight != 0 && row.place_in(2) == static_cast<float>(kMarked);
    const float squares = row.sum([&](auto c) { return row.in(0, c) * row.in(0, c); });
    const auto scale = static_cast<float>(static_cast<double>(weight) / row.divisor());
    row.each([&](auto c) { row.out(0, c, planted ? kHuge : scale * row.in(0, c)); });
    row.place_out(1, 0.5F * weight * squares);
    row.place_out(2, weight);
  }
};

class HugeGradient final : public millrace::Loss {
 public:
  struct Params {};
  static void describe(millrace::LossDescription<Params>& d) {
    d.name("huge_gradient").text("Half the square of the outputs, with a huge gradient for images of the marked class.");
    d.target(millrace::LossTarget::labels).example("", {10});
  }
  explicit HugeGradient(const Params&) {}
  void compute(millrace::LossPass& pass) const override {
    pass.row(HugeGradientKernel{}, {pass.output(), pass.weight(), pass.label()},
             {pass.d_output(), pass.figure(millrace::kLoss), pass.figure(millrace::kWeight)});
  }
};

struct Same {
  MILLRACE_KERNEL float operator()(float x) const { return x; }
};
struct PoisonedGradient {
  float value;
  MILLRACE_KERNEL float operator()(float dy) const { return dy > kLarge || dy < -kLarge ? value : dy; }
};

// Plants a value in the gradient of the preceding layer, where huge_gradient has marked it.
class PoisonGradient final : public millrace::PortableLayer {
 public:
  struct Params {
    std::string value = "nan";
  };
  static void describe(millrace::LayerDescription<Params>& d) {
    d.name("poison_gradient").text("What it is given; where its gradient is huge, the gradient before it is not finite.");
    d.example("", {{8, 5, 7}});
    d.params.add("value", &Params::value).choices({"nan", "inf"}).text("what the gradient is there");
  }
  explicit PoisonGradient(const Params& params)
      : value_(params.value == "nan" ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity()) {}

  void forward(millrace::Pass& pass) const override { pass.each(Same{}, pass.in(), pass.out()); }
  void backward(millrace::Pass& pass) const override { pass.each(PoisonedGradient{value_}, pass.d_out(), pass.d_in()); }

 private:
  const float value_;
};

}  // namespace

MILLRACE_PLUGIN("poison", "1.0", "Numbers that are not finite.") {
  registry.add_stage<Poison>();
  registry.add_stage<PoisonInput>();
  registry.add_loss<PoisonLoss>();
  registry.add_loss<HugeGradient>();
  registry.add_layer<PoisonGradient>();
}
