// Momentum cycled against the learning rate, as in PyTorch's OneCycleLR.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "millrace/error.h"
#include "optimizer.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/optimizers.h"
#include "testkit/plain.h"

namespace millrace {
namespace {

using testkit::table;

constexpr std::uint64_t kSteps = 40;
constexpr double kPeak = 0.3, kRate = 0.1;

Value cycling(const char* optimizer, std::initializer_list<std::pair<const char*, Value>> keys = {}) {
  Value learning_rate = table({{"initial", Value(kRate)},
                               {"schedule", Value(std::string("one_cycle"))},
                               {"start_factor", Value(0.04)},
                               {"final_factor", Value(4e-6)},
                               {"peak", Value(kPeak)},
                               {"cycle_momentum", Value(true)}});
  Value parameters = table({{"type", Value(std::string(optimizer))}, {"learning_rate", std::move(learning_rate)}});
  for (const auto& [key, value] : keys) parameters.set(key, value);
  return parameters;
}

// torch.optim.lr_scheduler.OneCycleLR(cycle_momentum=True, anneal_strategy="cos"), between its three points.
double one_cycle(std::uint64_t step, double first, double at_peak, double last) {
  const double t = static_cast<double>(step), top = kPeak * kSteps - 1, end = kSteps - 1;
  const auto anneal = [](double from, double to, double share) {
    return to + (from - to) / 2 * (std::cos(std::numbers::pi * share) + 1);
  };
  return t <= top ? anneal(first, at_peak, t / top) : anneal(at_peak, last, (t - top) / (end - top));
}
double rate_at(std::uint64_t step) { return one_cycle(step, 0.04 * kRate, kRate, 4e-6 * kRate); }
double momentum_at(std::uint64_t step) { return one_cycle(step, 0.95, 0.85, 0.95); }

// One replica with all values initially 1, trained by hand with the same gradient for all elements.
class Cycled {
 public:
  explicit Cycled(const Value& parameters) : device_(testkit::make_plain_backend()->open(0, {})) {
    StepContext context;
    context.graph = "train";
    context.name = "optimizer";
    context.network = &network_;
    context.registry = &testkit::optimizer_registry();
    context.replica = 0;
    context.batch_size = 128;
    context.steps_per_epoch = 10;
    context.total_steps = context.last_step = kSteps;
    CompileOptions options;
    StageTypeAccess::make<OptimizerStage>().request(parameters, context, options.request);
    replica_ = device_->compile(network_, options);
    replica_->start();
    for_each([&](int p, std::size_t size) { replica_->write(kValue, p, std::vector<float>(size, 1.0F)); });
    context.replicas = {replica_.get()};
    context.devices = {device_.get()};
    harness_ = std::make_unique<testkit::Harness>(StageTypeAccess::make<OptimizerStage>(), parameters, context);
    harness_->stage().open();
  }

  static float gradient(std::uint64_t step) { return std::sin(static_cast<float>(step)) + 0.5F; }
  void step(std::uint64_t step) {
    const std::vector<Bucket>& buckets = replica_->buckets();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      std::fill_n(buckets[b].gradients, buckets[b].elements, gradient(step));
      Ref<GradientBucket> payload = make_ref<GradientBucket>();
      payload->step = step;
      payload->bucket = static_cast<int>(b);
      payload->buckets = static_cast<int>(buckets.size());
      harness_->feed(testkit::packet(std::move(payload), step));
    }
  }
  void resume_from(const Cycled& other) {
    for (const std::string& state : other.replica_->states()) {
      for_each([&](int p, std::size_t) {
        if (state != kGradient) replica_->write(state, p, other.replica_->read(state, p));
      });
    }
    harness_->stage().restore(other.harness_->stage().save());
  }
  float value() const { return replica_->read(kValue, 0)[0]; }
  testkit::Harness& harness() { return *harness_; }

 private:
  template <class Body>
  void for_each(const Body& body) const {
    for (std::size_t p = 0; p < network_.parameters.size(); ++p) {
      body(static_cast<int>(p), static_cast<std::size_t>(network_.parameters[p].shape.elements()));
    }
  }

  Network network_ = testkit::small_network({2, 2, 1}, 3, 2);
  std::unique_ptr<Device> device_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<testkit::Harness> harness_;
};

// `formula`: changes the value, in double.
void expect_cycles(const Value& parameters, const std::function<void(double& w, std::uint64_t step, double g)>& formula) {
  Cycled cycled(parameters), resumed(parameters);
  double w = 1;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    if (step == 17) resumed.resume_from(cycled);
    cycled.step(step);
    if (step >= 17) resumed.step(step);
    formula(w, step, static_cast<double>(Cycled::gradient(step)));
    ASSERT_NEAR(cycled.value(), w, 1e-5) << "step " << step;
    EXPECT_NEAR(cycled.harness().run().scalars(step).at("momentum"), momentum_at(step), 1e-12);
  }
  EXPECT_EQ(resumed.value(), cycled.value()) << "the bits of a run that resumes";
}

TEST(MomentumCycle, DrivesTheMomentumOfSgd) {
  double v = 0;
  expect_cycles(cycling("sgd", {{"momentum", Value(0.5)}, {"nesterov", Value(true)}}),
                [&](double& w, std::uint64_t step, double g) {
                  v = momentum_at(step) * v + g;
                  w -= rate_at(step) * (g + momentum_at(step) * v);
                });
}

// PyTorch sets betas[0], which its bias correction takes to the power of the step's number.
TEST(MomentumCycle, DrivesTheFirstBetaOfAdam) {
  double m = 0, v = 0;
  expect_cycles(cycling("adam"), [&](double& w, std::uint64_t step, double g) {
    const double beta1 = momentum_at(step), t = static_cast<double>(step + 1);
    m = beta1 * m + (1 - beta1) * g;
    v = 0.999 * v + 0.001 * g * g;
    w -= rate_at(step) * (m / (1 - std::pow(beta1, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
  });
}

TEST(MomentumCycle, WithoutAMomentumIsAMistake) {
  for (const char* optimizer : {"sgd", "rmsprop", "adafactor"}) {
    const Error error = testkit::error_of(ErrorKind::usage, [&] { const Cycled cycled(cycling(optimizer)); });
    EXPECT_EQ(error.what(), std::string("cycle_momentum of learning_rate needs an optimizer with a momentum above 0, and '") +
                                optimizer + "' has none here");
  }
  Value vectors = table({{"vectors", Value(true)}, {"type", Value(std::string("sgd"))}, {"momentum", Value(0.9)}});
  EXPECT_NO_THROW(Cycled(cycling("adafactor", {{"groups", Value(Array{vectors})}}))) << "one of the optimizers has one";
}

}  // namespace
}  // namespace millrace
