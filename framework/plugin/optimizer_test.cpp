// Optimizers as written by authors, and as run by the framework.
#include "millrace/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "millrace/detail/tensor.h"
#include "millrace/plugin.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using testkit::table;

// Moves the value towards the second state, scaled by norms if there are any.
struct TestKernel {
  static constexpr int kStates = 2;
  float share;
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[2]) const {
    states[0] = share * states[0] + gradient;
    states[1] += gradient * gradient;
    value -= n.rate * (states[0] + n.decay * value + n.value_norm * gradient + n.gradient_norm * value);
  }
};

// Moves along its first state, scaled by the norm of all such steps.
struct DirectedTestKernel {
  static constexpr int kStates = 2;
  float share;
  MILLRACE_KERNEL float direction(const UpdateNumbers& n, float gradient, float value, float (&states)[2]) const {
    states[0] = share * states[0] + gradient;
    return states[0] + n.decay * value;
  }
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[2]) const {
    const float step = direction(n, gradient, value, states);
    value -= n.rate * n.value_norm / n.direction_norm * step;
  }
};

template <OptimizerScope kScope, class Kernel = TestKernel>
class TestOptimizer {
 public:
  struct Params {
    double share = 0.5;
    bool second = true;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("test").text("An optimizer.").scope(kScope).state("first");
    d.state("second", 0.25F, [](const Params& params) { return params.second; });
    d.params.add("share", &Params::share).range(0, 2).text("of the first state");
    d.params.add("second", &Params::second).text("keeps the second state");
  }
  explicit TestOptimizer(const Params& params) : share_(params.share) {
    if (share_ > 1) fail(ErrorKind::usage, "share must be at most 1");
  }
  Kernel kernel(const UpdateTime& time) const { return {static_cast<float>(share_ * static_cast<double>(time.updates_done))}; }

 private:
  double share_;
};

// Arrays of 5000 packs in three segments of 1, 4100 and 899 packs.
struct Arrays {
  static constexpr std::int64_t kPacks = 5000;
  static constexpr std::size_t kSize = kPacks * kUpdatePack;
  struct alignas(32) Pack {
    float values[kUpdatePack];
  };
  std::vector<Pack> memory[4] = {std::vector<Pack>(kPacks), std::vector<Pack>(kPacks), std::vector<Pack>(kPacks),
                                 std::vector<Pack>(kPacks)};
  std::vector<Pack> copies = std::vector<Pack>(kPacks / 2);
  UpdateSegment segments[3] = {{0, 0, 1, 0.5F}, {1, 1, 2, 0}, {4101, 3, 0.5F, 0.25F}};
  Squares squares[3 + 4];

  Arrays() {
    std::mt19937 generator(7);
    std::normal_distribution<float> normal;
    for (auto& packs : memory) {
      for (std::size_t i = 0; i < kSize; ++i) packs.data()->values[i] = normal(generator);
    }
  }
  float* array(int which) { return memory[which].data()->values; }
  UpdateArguments arguments() {
    UpdateArguments at;
    at.value = array(0);
    at.gradient = array(1);
    at.states[0] = array(2);
    at.states[1] = array(3);
    at.bf16 = reinterpret_cast<Bf16*>(copies.data());
    at.packs = kPacks;
    at.segments = segments;
    at.segment_count = 3;
    at.learning_rate = 0.125F;
    at.squares = squares;
    at.partial_squares = squares + 3;
    at.chunks = 4;
    return at;
  }
  bool same_bits(const Arrays& other) const {
    for (int a = 0; a < 4; ++a) {
      if (std::memcmp(memory[a].data(), other.memory[a].data(), kSize * sizeof(float)) != 0) return false;
    }
    return std::memcmp(copies.data(), other.copies.data(), kSize * 2) == 0;
  }
};

std::shared_ptr<const Optimizer> made(const OptimizerType& type, const Value& parameters = {}) {
  Diagnostics errors;
  std::shared_ptr<const Optimizer> optimizer = type.create(parameters, "[train.optimizer]", errors);
  errors.throw_if_any();
  return optimizer;
}

// `units`: number of units per run.
void update(const Optimizer& optimizer, const UpdateArguments& at, const UpdateTime& time, std::int64_t units = 1 << 30) {
  optimizer.update(at, time, [&](const Kernel& kernel, const void* element) {
    const std::int64_t all = kernel.units(element);
    for (std::int64_t first = 0; first < all; first += units) kernel.run_on_host(element, first, std::min(first + units, all));
  });
}

TEST(Optimizer, UpdatesBySegments) {
  Arrays arrays;
  const Arrays before = arrays;
  update(*made(optimizer_type<TestOptimizer<OptimizerScope::element>>()), arrays.arguments(), {.updates_done = 3});
  for (std::size_t i = 0; i < Arrays::kSize; ++i) {
    const auto old = [&](int a) { return static_cast<double>(before.memory[a].data()->values[i]); };
    const UpdateSegment& segment = arrays.segments[i < 8 ? 0 : i < 4101 * 8 ? 1 : 2];
    const double first = 1.5 * old(2) + old(1);
    const double rate = 0.125 * static_cast<double>(segment.rate_factor);
    ASSERT_NEAR(arrays.array(2)[i], first, 1e-5);
    ASSERT_NEAR(arrays.array(3)[i], old(3) + old(1) * old(1), 1e-5);
    ASSERT_NEAR(arrays.array(0)[i], old(0) - rate * (first + static_cast<double>(segment.decay) * old(0)), 1e-5);
    ASSERT_EQ(reinterpret_cast<const std::uint16_t*>(arrays.copies.data())[i], to_bf16(arrays.array(0)[i]));
  }
}

TEST(Optimizer, KnowsTheNormsOfEachSegment) {
  Arrays arrays;
  const Arrays before = arrays;
  update(*made(optimizer_type<TestOptimizer<OptimizerScope::parameter>>()), arrays.arguments(), {.updates_done = 0});
  const std::size_t ends[] = {0, 8, 4101 * 8, Arrays::kSize};
  for (std::size_t s = 0; s < 3; ++s) {
    double value = 0, gradient = 0;
    for (std::size_t i = ends[s]; i < ends[s + 1]; ++i) {
      value += std::pow(static_cast<double>(before.memory[0].data()->values[i]), 2);
      gradient += std::pow(static_cast<double>(before.memory[1].data()->values[i]), 2);
    }
    EXPECT_NEAR(arrays.squares[s].value, value, 1e-9 * value);
    EXPECT_NEAR(arrays.squares[s].gradient, gradient, 1e-9 * gradient);
    const std::size_t i = ends[s];
    const double v = before.memory[0].data()->values[i], g = before.memory[1].data()->values[i];
    const double step = g + static_cast<double>(arrays.segments[s].decay) * v + std::sqrt(value) * g + std::sqrt(gradient) * v;
    EXPECT_NEAR(arrays.array(0)[i], v - 0.125 * static_cast<double>(arrays.segments[s].rate_factor) * step, 1e-3);
  }
}

// At the fourth update the first state's share is 0.5 * 3. The gradient is scaled by a quarter.
TEST(Optimizer, KnowsTheNormOfItsDirection) {
  Arrays arrays;
  const Arrays before = arrays;
  const float quarter = 0.25F;
  UpdateArguments at = arrays.arguments();
  at.scale = &quarter;
  update(*made(optimizer_type<TestOptimizer<OptimizerScope::parameter, DirectedTestKernel>>()), at, {.updates_done = 3});
  const std::size_t ends[] = {0, 8, 4101 * 8, Arrays::kSize};
  const auto old = [&](int a, std::size_t i) { return static_cast<double>(before.memory[a].data()->values[i]); };
  const auto first = [&](std::size_t i) { return 1.5 * old(2, i) + 0.25 * old(1, i); };
  for (std::size_t s = 0; s < 3; ++s) {
    const double decay = arrays.segments[s].decay;
    double value = 0, direction = 0;
    for (std::size_t i = ends[s]; i < ends[s + 1]; ++i) {
      value += std::pow(old(0, i), 2);
      direction += std::pow(first(i) + decay * old(0, i), 2);
    }
    const double rate = 0.125 * static_cast<double>(arrays.segments[s].rate_factor) * std::sqrt(value / direction);
    for (std::size_t i = ends[s]; i < ends[s + 1]; ++i) {
      ASSERT_NEAR(arrays.array(2)[i], first(i), 1e-5) << i;
      ASSERT_NEAR(arrays.array(0)[i], old(0, i) - rate * (first(i) + decay * old(0, i)), 1e-5) << i;
    }
  }
}

// A device's threads compute the same formula, pack by pack.
TEST(Optimizer, ADevicesElementsComputeTheSame) {
  Arrays blocks, packs;
  const UpdateElement<TestKernel> on_blocks{blocks.arguments(), {0.5F}}, on_packs{packs.arguments(), {0.5F}};
  const Kernel& kernel = detail::update_kernel<UpdateElement<TestKernel>>;
  kernel.run_on_host(&on_blocks, 0, kernel.units(&on_blocks));
  for (std::int64_t i = 0; i < on_packs.size(); ++i) on_packs(i);
  for (int a = 0; a < 4; ++a) {
    for (std::size_t i = 0; i < Arrays::kSize; ++i) ASSERT_NEAR(blocks.array(a)[i], packs.array(a)[i], 1e-5) << a << ", " << i;
  }
}

TEST(Optimizer, AScaleMultipliesTheGradientAndOfZeroSkipsTheUpdate) {
  const auto optimizer = made(optimizer_type<TestOptimizer<OptimizerScope::parameter>>());
  Arrays scaled, divided, untouched;
  const Arrays before = untouched;
  const float quarter = 0.25F, zero = 0;
  for (std::size_t i = 0; i < Arrays::kSize; ++i) divided.array(1)[i] *= quarter;
  UpdateArguments at = scaled.arguments();
  at.scale = &quarter;
  update(*optimizer, at, {.updates_done = 1});
  update(*optimizer, divided.arguments(), {.updates_done = 1});
  for (const int a : {0, 2, 3}) {
    for (std::size_t i = 0; i < Arrays::kSize; ++i) ASSERT_NEAR(scaled.array(a)[i], divided.array(a)[i], 1e-4);
  }
  at = untouched.arguments();
  at.scale = &zero;
  untouched.array(1)[0] = NAN;  // possible in a step that will be skipped
  update(*optimizer, at, {.updates_done = 1});
  untouched.array(1)[0] = before.memory[1].data()->values[0];
  EXPECT_TRUE(untouched.same_bits(before));
}

TEST(Optimizer, SaysThatAGradientIsNotFinite) {
  const Kernel& kernel = detail::update_kernel<UpdateElement<TestKernel>>;
  const std::size_t places[] = {0, 7, 12345, Arrays::kSize - 1};
  for (const float value : {NAN, INFINITY, -INFINITY, 3e38F}) {
    for (const std::size_t place : places) {
      Arrays arrays;
      arrays.array(1)[place] = value;
      std::uint32_t of_blocks = 0, of_packs = 0, when_skipped = 0;
      UpdateArguments at = arrays.arguments();
      const auto run = [&](std::uint32_t& wrong, const auto& compute) {
        at.wrong = &wrong;
        compute(UpdateElement<TestKernel>{at, {0.5F}});
      };
      const auto blocks = [&](const auto& element) { kernel.run_on_host(&element, 0, kernel.units(&element)); };
      run(of_blocks, blocks);
      run(of_packs, [&](const auto& element) {
        for (std::int64_t i = 0; i < element.size(); ++i) element(i);
      });
      EXPECT_EQ(of_blocks, std::isfinite(value) ? 0U : 1U) << value << " at " << place;
      EXPECT_EQ(of_packs, of_blocks) << value << " at " << place;
      const float zero = 0;
      at.scale = &zero;
      run(when_skipped, blocks);
      EXPECT_EQ(when_skipped, 0U) << "nothing was updated";
    }
  }
}

TEST(Optimizer, KeepsTheStatesThatItsParametersAskFor) {
  const OptimizerType type = optimizer_type<TestOptimizer<OptimizerScope::element>>();
  const auto both = made(type), one = made(type, table({{"second", Value(false)}}));
  ASSERT_EQ(both->states().size(), 2U);
  EXPECT_EQ(both->states()[1].name, "second");
  EXPECT_EQ(both->states()[1].initial, 0.25F);
  ASSERT_EQ(one->states().size(), 1U);
  Arrays with, without;
  UpdateArguments at = without.arguments();
  at.states[1] = nullptr;
  update(*both, with.arguments(), {.updates_done = 1});
  update(*one, at, {.updates_done = 1});
  EXPECT_EQ(std::memcmp(with.array(0), without.array(0), Arrays::kSize * sizeof(float)), 0);
}

TEST(Optimizer, NamesTheMemoryThatItUses) {
  Arrays arrays;
  std::uint32_t wrong = 0;
  UpdateArguments at = arrays.arguments();
  at.wrong = &wrong;
  const UpdateElement<TestKernel> element{at, {0.5F}};
  const auto uses = [&](const void* memory, bool write) {
    const std::vector<MemoryUse> all = detail::update_kernel<UpdateElement<TestKernel>>.uses(&element);
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const MemoryUse& use) { return use.memory == memory && use.write == write; });
    return found == all.end() ? 0 : found->bytes;
  };
  const std::size_t bytes = Arrays::kSize * sizeof(float);
  for (const float* array : {at.value, at.states[0], at.states[1]}) {
    EXPECT_EQ(uses(array, false), bytes);
    EXPECT_EQ(uses(array, true), bytes);
  }
  EXPECT_EQ(uses(at.gradient, false), bytes);
  EXPECT_EQ(uses(at.gradient, true), 0U);
  EXPECT_EQ(uses(at.bf16, true), bytes / 2);
  EXPECT_EQ(uses(at.segments, false), sizeof arrays.segments);
  EXPECT_EQ(uses(at.squares, false), sizeof(Squares) * 3);
  EXPECT_EQ(uses(at.wrong, true), sizeof wrong);
}

TEST(Optimizer, ItsConstructorsMistakeIsReportedWithTheTable) {
  Diagnostics errors;
  const OptimizerType type = optimizer_type<TestOptimizer<OptimizerScope::element>>();
  EXPECT_EQ(type.create(table({{"share", Value(1.5)}}), "[train.optimizer]", errors), nullptr);
  EXPECT_MESSAGE(errors.text());
  EXPECT_EQ(type.name, "test");
  EXPECT_EQ(type.defaults.find("share")->number(), 0.5);
}

struct WrongCount : TestOptimizer<OptimizerScope::element> {
  using TestOptimizer::TestOptimizer;
  static void describe(OptimizerDescription<Params>& d) { d.name("wrong").state("first"); }
};

TEST(Optimizer, ADescriptionThatDoesNotFitTheKernelIsRefused) {
  EXPECT_MESSAGE(testkit::error_of([&] { optimizer_type<WrongCount>(); }).what());
}

}  // namespace
}  // namespace millrace
