// Trials of engines, with a simulated GPU's own as good ones and planted ones as bad ones.
#include "engine_trial.h"

#include <cmath>
#include <functional>
#include <limits>

#include "simulation/library_loops.h"
#include "simulation/simulation_fixture.h"

#include "testkit/messages.h"

namespace millrace::cuda {
namespace {

using Kind = ConvolutionShape::Kind;

ConvolutionShape convolution(Kind kind, DataType type, std::int64_t c = 24, std::int64_t k = 20, std::int64_t groups = 1) {
  ConvolutionShape shape{.kind = kind, .type = type, .n = 4, .c = c, .h = 9, .w = 7, .k = k, .out_h = 9, .out_w = 7};
  shape.kernel_h = shape.kernel_w = 3;
  shape.top = shape.left = shape.bottom = shape.right = 1;
  shape.groups = groups;
  shape.bias = kind == Kind::forward;
  return shape;
}

// A data gradient that runs a given function after the loops.
class Gradient final : public LoopPlan {
 public:
  using After = std::function<void(std::vector<float>& before, float* x)>;
  Gradient(const ConvolutionShape& shape, After after)
      : loops_(plan_in_loops(plain(shape))), elements_(operand_bytes(shape).x / sizeof(float)), after_(std::move(after)) {}

  const char* name() const override { return "gradient"; }
  std::string engine() const override { return "engine 7"; }
  std::size_t workspace() const override { return loops_->workspace(); }
  std::vector<Use> uses(const LibraryRun& run) const override { return loop().uses(run); }
  void execute(const LibraryRun& run) const override {
    auto* x = static_cast<float*>(run.x);
    std::vector<float> before(x, x + elements_);
    loop().execute(run);
    after_(before, x);
  }

 private:
  static ConvolutionShape plain(ConvolutionShape shape) {
    shape.accumulate = false;
    return shape;
  }
  const LoopPlan& loop() const { return static_cast<const LoopPlan&>(*loops_); }

  std::shared_ptr<const LibraryPlan> loops_;
  std::size_t elements_;
  After after_;
};

using Spoil = std::function<void(float* result)>;

// A convolution in loops with a corrupted result.
class Spoilt final : public LoopPlan {
 public:
  Spoilt(const ConvolutionShape& shape, Spoil spoil)
      : loops_(plan_in_loops(shape)), kind_(shape.kind), spoil_(std::move(spoil)) {}

  const char* name() const override { return "spoilt"; }
  std::string engine() const override { return "engine 8"; }
  std::size_t workspace() const override { return loops_->workspace(); }
  std::vector<Use> uses(const LibraryRun& run) const override { return loop().uses(run); }
  void execute(const LibraryRun& run) const override {
    loop().execute(run);
    spoil_(static_cast<float*>(kind_ == Kind::forward ? run.y : kind_ == Kind::data_gradient ? run.x : run.w));
  }

 private:
  const LoopPlan& loop() const { return static_cast<const LoopPlan&>(*loops_); }

  std::shared_ptr<const LibraryPlan> loops_;
  Kind kind_;
  Spoil spoil_;
};

std::size_t result_bytes(const ConvolutionShape& shape) {
  const OperandBytes bytes = operand_bytes(shape);
  return shape.kind == Kind::forward ? bytes.y : shape.kind == Kind::data_gradient ? bytes.x : bytes.w;
}

class EngineTrialTest : public SimulationTest {
 protected:
  std::optional<double> tried_with(const ConvolutionShape& shape, const Spoil& spoil) {
    TrialOperands operands = TrialOperands::of(shape);
    operands.check = std::make_shared<const EngineCheck>(shape, most_held);
    EngineTrial trial(*machine, *a, operands);
    return trial.run(*std::make_shared<Spoilt>(shape, spoil), false, why_not);
  }
  std::optional<double> tried(const Gradient::After& after) {
    ConvolutionShape shape = convolution(Kind::data_gradient, DataType::f32);
    shape.accumulate = true;
    EngineTrial trial(*machine, *a, TrialOperands::of(shape));
    return trial.run(*std::make_shared<Gradient>(shape, after), false, why_not);
  }
  std::string why_not;
  std::size_t most_held = EngineCheck::kMaxHeld;
};

TEST_F(EngineTrialTest, RunsEveryKindOnMemoryOfItsSize) {
  const std::size_t before = machine->free_memory();
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    for (const Kind kind : {Kind::forward, Kind::data_gradient, Kind::weight_gradient}) {
      for (const ConvolutionShape& shape :
           {convolution(kind, type), convolution(kind, type, 12, 12, 12), convolution(kind, type, 12, 18, 3)}) {
        EngineTrial trial(*machine, *a, TrialOperands::of(shape));
        EXPECT_EQ(trial.run(*machine->plan(shape, {}), false, why_not), 0) << why_not;
      }
      const LinearShape product{.kind = kind, .type = type, .rows = 5, .in = 24, .out = 16, .bias = kind == Kind::forward};
      EngineTrial trial(*machine, *a, TrialOperands::of(product));
      EXPECT_EQ(trial.run(*machine->plan(product, {}), false, why_not), 0) << why_not;
    }
  }
  EXPECT_EQ(machine->free_memory(), before);
  expect_clean();
}

TEST_F(EngineTrialTest, TimesOnePlanAfterAnother) {
  const ConvolutionShape shape = convolution(Kind::forward, DataType::bf16);
  EngineTrial trial(*machine, *a, TrialOperands::of(shape));
  for (int i = 0; i < 2; ++i) {
    const auto seconds = trial.run(*machine->plan(shape, {}), true, why_not);
    ASSERT_TRUE(seconds);
    EXPECT_GT(*seconds, 0);
    EXPECT_TRUE(std::isfinite(*seconds));
  }
  expect_clean();
}

TEST_F(EngineTrialTest, TakesGradientsOfWeightsThatWereRoundedToTheTypeTheyAreOf) {
  for (const std::int64_t side : {3, 4, 7, 11}) {
    for (const DataType type : {DataType::f32, DataType::bf16}) {
      ConvolutionShape shape = convolution(Kind::weight_gradient, type);
      shape.n = side;
      const std::size_t elements = result_bytes(shape) / sizeof(float);
      const auto rounded = tried_with(shape, [&](float* w) {
        for (std::size_t i = 0; i < elements; ++i) w[i] = to_float(from_float<Bf16>(w[i])) * (1 + 0x1p-10F);
      });
      EXPECT_EQ(rounded.has_value(), type == DataType::bf16) << side << ' ' << why_not;
    }
  }
  expect_clean();
}

TEST_F(EngineTrialTest, AsksEachOfSeveralWhetherItAdds) {
  ConvolutionShape shape = convolution(Kind::data_gradient, DataType::f32);
  shape.accumulate = true;
  EngineTrial trial(*machine, *a, TrialOperands::of(shape));
  const auto add = [](std::vector<float>& before, float* x) {
    for (std::size_t i = 0; i < before.size(); ++i) x[i] += before[i];
  };
  const auto overwrite = [](std::vector<float>&, float*) {};
  EXPECT_EQ(trial.run(*std::make_shared<Gradient>(shape, add), false, why_not), 0) << why_not;
  EXPECT_FALSE(trial.run(*std::make_shared<Gradient>(shape, overwrite), false, why_not));
  EXPECT_NE(why_not.find("does not add"), std::string::npos) << why_not;
  expect_clean();
}

TEST_F(EngineTrialTest, TakesAGradientThatAdds) {
  const auto add = [](std::vector<float>& before, float* x) {
    for (std::size_t i = 0; i < before.size(); ++i) x[i] += before[i];
  };
  EXPECT_EQ(tried(add), 0) << why_not;
  expect_clean();
}

TEST_F(EngineTrialTest, RefusesAGradientThatForgetsWhatWasThere) {
  EXPECT_FALSE(tried([](std::vector<float>&, float*) {}));
  EXPECT_MESSAGE(why_not);
}

TEST_F(EngineTrialTest, RefusesAGradientThatForgetsItsLastElements) {
  const auto forget = [](std::vector<float>& before, float* x) {
    for (std::size_t i = 0; i + 8 < before.size(); ++i) x[i] += before[i];
  };
  EXPECT_FALSE(tried(forget));
}

TEST_F(EngineTrialTest, RefusesAGradientThatAddsTwice) {
  const auto twice = [](std::vector<float>& before, float* x) {
    for (std::size_t i = 0; i < before.size(); ++i) x[i] += 2 * before[i];
  };
  EXPECT_FALSE(tried(twice));
}

// Every kind of kernel error, planted after correct loops.
TEST_F(EngineTrialTest, RefusesAWrongBlockAndAWriteOutside) {
  for (const Kind kind : {Kind::forward, Kind::data_gradient, Kind::weight_gradient}) {
    const ConvolutionShape shape = convolution(kind, DataType::f32);
    const std::size_t elements = result_bytes(shape) / sizeof(float);
    const auto wrong_block = [elements](float* result) {
      for (std::size_t i = elements - 16; i < elements; ++i) result[i] += 1;
    };
    const auto last_is_garbage = [elements](float* result) { result[elements - 1] = 1e33F; };
    const auto behind = [elements](float* result) { result[elements] = 0; };
    const auto in_front = [](float* result) { result[-1] = 0; };
    for (const std::size_t held : {std::size_t{0}, EngineCheck::kMaxHeld}) {  // one repeated sample; all of them
      most_held = held;
      EXPECT_EQ(tried_with(shape, [](float*) {}), 0) << why_not;
      for (const Spoil& spoil : {Spoil(wrong_block), Spoil(last_is_garbage)}) {
        EXPECT_FALSE(tried_with(shape, spoil));
        EXPECT_NE(why_not.find("engine 8 computes wrongly: "), std::string::npos) << why_not;
      }
      for (const Spoil& spoil : {Spoil(behind), Spoil(in_front)}) {
        EXPECT_FALSE(tried_with(shape, spoil));
        EXPECT_EQ(why_not, "engine 8 computes wrongly: it writes outside of its memory");
      }
    }
  }
}

TEST_F(EngineTrialTest, WithoutTheMemoryOnlyAGradientThatAddsIsRefused) {
  start({.memory = 1 << 12});
  EXPECT_FALSE(tried([](std::vector<float>&, float*) { ADD_FAILURE() << "was run"; }));
  EXPECT_MESSAGE(why_not);
  const ConvolutionShape shape = convolution(Kind::data_gradient, DataType::f32);
  EngineTrial trial(*machine, *a, TrialOperands::of(shape));
  EXPECT_EQ(trial.run(*machine->plan(shape, {}), true, why_not), std::numeric_limits<double>::infinity());
}

TEST_F(EngineTrialTest, RefusesAReluThatHidesNan) {
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    ConvolutionShape shape = convolution(Kind::forward, type);
    shape.activation = Activation::relu;
    const auto hide = [&]<class T>(T* y) {
      for (std::size_t i = 0; i < result_bytes(shape) / sizeof(T); ++i) y[i] = std::isnan(to_float(y[i])) ? T{} : y[i];
    };
    EXPECT_TRUE(tried_with(shape, [](float*) {})) << why_not;
    EXPECT_FALSE(tried_with(shape, [&](float* y) { type == DataType::f32 ? hide(y) : hide(reinterpret_cast<Bf16*>(y)); }));
    EXPECT_NE(why_not.find("its ReLU makes 0 of NaN"), std::string::npos) << why_not;
  }
}

TEST(IsSum, AllowsTheRoundingOfBf16AndNoMore) {
  EXPECT_TRUE(is_sum({1, -2}, {0.5F, 0.25F}, {1.5F, -1.75F}));
  EXPECT_TRUE(is_sum({1}, {0.5F}, {1.504F}));
  EXPECT_FALSE(is_sum({1}, {0.5F}, {0.5F}));
  EXPECT_FALSE(is_sum({1}, {0.5F}, {1}));
  EXPECT_FALSE(is_sum({1}, {0.5F}, {std::nanf("")}));
}

}  // namespace
}  // namespace millrace::cuda
