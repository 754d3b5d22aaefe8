// States of rows, of columns and of the whole parameter, together with one of elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "millrace/optimizer.h"
#include "millrace/plugin.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

// Rows follow the gradient, columns its square, the whole the value times the gradient; the fourth state sums gradients.
struct FourShapesKernel {
  static constexpr int kStates = 4;
  float share;
  MILLRACE_KERNEL float measure(const UpdateNumbers&, int state, float gradient, float value) const {
    return state == 0 ? gradient : state == 1 ? gradient * gradient : value * gradient;
  }
  MILLRACE_KERNEL float reduced(const UpdateNumbers& n, int state, float mean, float before) const {
    return before + share * (mean - before) + (state == 2 ? n.decay : 0.0F);
  }
  MILLRACE_KERNEL float direction(const UpdateNumbers&, float gradient, float, float (&states)[4]) const {
    return gradient * (states[0] + 2 * states[1] + states[2]);
  }
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[4]) const {
    states[3] += gradient;
    value -= n.rate * (direction(n, gradient, value, states) + states[3] * n.direction_norm);
    states[0] = states[1] = states[2] = 1000;  // dropped
  }
};

class FourShapes {
 public:
  struct Params {
    double share = 0.25;
    bool rows = true;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("four").text("An optimizer.").scope(OptimizerScope::parameter);
    d.state("of_rows", StateShape::rows, 0.5F, [](const Params& params) { return params.rows; });
    d.state("of_columns", StateShape::columns).state("of_all", StateShape::scalar).state("of_elements");
    d.params.add("share", &Params::share).range(0, 1).text("of the new mean");
    d.params.add("rows", &Params::rows).text("keeps a state of rows");
  }
  explicit FourShapes(const Params& params) : share_(params.share) {}
  FourShapesKernel kernel(const UpdateTime&) const { return {static_cast<float>(share_)}; }

 private:
  double share_;
};

std::shared_ptr<const Optimizer> made_of_four(const Value& parameters = {}) {
  Diagnostics errors;
  std::shared_ptr<const Optimizer> optimizer = optimizer_type<FourShapes>().create(parameters, "[train.optimizer]", errors);
  errors.throw_if_any();
  return optimizer;
}

// Two parameters: a matrix of 5 rows and 11 columns, stored as 6 rows of 12 elements, and a vector of 13.
struct TwoParameters {
  static constexpr std::int64_t kPacks = 9 + 2, kRows = 5 + 13, kColumnPacks = 2 + 1;
  static constexpr std::size_t kSize = kPacks * kUpdatePack;
  struct alignas(32) Pack {
    float values[kUpdatePack];
  };
  std::vector<Pack> memory[6] = {std::vector<Pack>(kPacks),       std::vector<Pack>(kPacks), std::vector<Pack>(3),
                                 std::vector<Pack>(kColumnPacks), std::vector<Pack>(1),      std::vector<Pack>(kPacks)};
  UpdateSegment segments[2] = {{.rate_factor = 1, .decay = 0.5F, .rows = 5, .columns = 11, .width = 12},
                               {.begin = 9, .first_chunk = 1, .rate_factor = 2, .rows = 13, .first_row = 5, .first_column = 16}};
  Squares squares[2 + 2];

  TwoParameters() {
    std::mt19937 generator(3);
    std::normal_distribution<float> normal;
    std::fill_n(array(2), kRows, 0.5F);
    for (int a = 0; a < 2; ++a) {
      for_each([&](std::size_t, std::size_t i, std::size_t, std::size_t, std::size_t) { array(a)[i] = normal(generator); });
    }
  }
  float* array(int which) { return memory[which].data()->values; }
  // body(segment, element, its row, its column, its column of a state)
  template <class Body>
  void for_each(const Body& body) const {
    for (std::size_t s = 0; s < 2; ++s) {
      const UpdateSegment& own = segments[s];
      for (std::int32_t r = 0; r < own.rows; ++r) {
        for (std::int32_t c = 0; c < own.columns; ++c) {
          body(s, static_cast<std::size_t>(own.begin * kUpdatePack + r * own.width + c),
               static_cast<std::size_t>(own.first_row + r), static_cast<std::size_t>(c),
               static_cast<std::size_t>(own.first_column + c));
        }
      }
    }
  }
  UpdateArguments arguments(bool rows = true) {
    UpdateArguments at;
    at.value = array(0);
    at.gradient = array(1);
    for (int s = 0; s < (rows ? 4 : 3); ++s) at.states[s] = array(s + (rows ? 2 : 3));
    at.packs = kPacks;
    at.segments = segments;
    at.segment_count = 2;
    at.rows = kRows;
    at.column_packs = kColumnPacks;
    at.learning_rate = 0.125F;
    at.squares = squares;
    at.partial_squares = squares + 2;
    at.chunks = 2;
    return at;
  }
  bool same_bits(const TwoParameters& other) const {
    for (int a = 0; a < 6; ++a) {
      if (std::memcmp(memory[a].data(), other.memory[a].data(), memory[a].size() * sizeof(Pack)) != 0) return false;
    }
    return true;
  }
};

void update_two(const Optimizer& optimizer, const UpdateArguments& at, std::int64_t units = 1 << 30) {
  optimizer.update(at, {}, [&](const Kernel& kernel, const void* element) {
    const std::int64_t all = kernel.units(element);
    for (std::int64_t first = 0; first < all; first += units) kernel.run_on_host(element, first, std::min(first + units, all));
  });
}

// Reference results in double.
struct ExpectedStates {
  std::vector<double> rows = std::vector<double>(TwoParameters::kRows), columns = std::vector<double>(24), all = {0, 0},
                      norms = {0, 0}, value = std::vector<double>(TwoParameters::kSize);

  ExpectedStates(TwoParameters& before, double scale) {
    const auto value_of = [&](std::size_t i) { return static_cast<double>(before.array(0)[i]); };
    const auto gradient_of = [&](std::size_t i) { return scale * static_cast<double>(before.array(1)[i]); };
    before.for_each([&](std::size_t s, std::size_t i, std::size_t row, std::size_t, std::size_t column) {
      const double m = before.segments[s].rows, n = before.segments[s].columns;
      rows[row] += gradient_of(i) / n;
      columns[column] += gradient_of(i) * gradient_of(i) / m;
      all[s] += value_of(i) * gradient_of(i) / m / n;
    });
    for (double& row : rows) row = 0.5 + 0.25 * (row - 0.5);
    for (double& column : columns) column *= 0.25;
    for (std::size_t s = 0; s < 2; ++s) all[s] = 0.25 * all[s] + static_cast<double>(before.segments[s].decay);
    const auto direction = [&](std::size_t s, std::size_t i, std::size_t row, std::size_t column) {
      return gradient_of(i) * (rows[row] + 2 * columns[column] + all[s]);
    };
    before.for_each([&](std::size_t s, std::size_t i, std::size_t row, std::size_t, std::size_t column) {
      norms[s] += std::pow(direction(s, i, row, column), 2);
    });
    before.for_each([&](std::size_t s, std::size_t i, std::size_t row, std::size_t, std::size_t column) {
      const double rate = 0.125 * static_cast<double>(before.segments[s].rate_factor);
      value[i] = value_of(i) - rate * (direction(s, i, row, column) + gradient_of(i) * std::sqrt(norms[s]));
    });
  }
};

TEST(ReducedStates, AreMeansOverRowsColumnsAndTheWhole) {
  for (const double scale : {1.0, 0.5}) {
    TwoParameters parameters;
    const ExpectedStates expected(parameters, scale);
    const auto factor = static_cast<float>(scale);
    UpdateArguments at = parameters.arguments();
    if (scale != 1) at.scale = &factor;
    update_two(*made_of_four(), at);
    parameters.for_each([&](std::size_t s, std::size_t i, std::size_t row, std::size_t, std::size_t column) {
      ASSERT_NEAR(parameters.array(2)[row], expected.rows[row], 1e-6);
      ASSERT_NEAR(parameters.array(3)[column], expected.columns[column], 1e-6);
      ASSERT_NEAR(parameters.array(4)[s], expected.all[s], 1e-6);
      ASSERT_EQ(parameters.array(5)[i], factor * parameters.array(1)[i]);
      ASSERT_NEAR(parameters.array(0)[i], expected.value[i], 1e-5);
    });
  }
}

// Simulates a device's group, one lane after the other: the first lane runs last, after the others have contributed.
struct LaneInTurn {
  static constexpr int kLanes = 4;
  int number;
  std::vector<double> (&said)[kLanes];

  int lane() const { return number; }
  int size() const { return kLanes; }
  double sum(double value) const {
    const std::size_t call = said[number].size();
    said[number].push_back(value);
    double sum = value;
    for (int other = 1; number == 0 && other < kLanes; ++other) sum += said[other].at(call);
    return sum;
  }
};
template <class Element>
void run_in_lanes(const Element& element) {
  for (std::int64_t i = 0; i < element.size(); ++i) {
    std::vector<double> said[LaneInTurn::kLanes];
    for (int lane = LaneInTurn::kLanes - 1; lane >= 0; --lane) element(LaneInTurn{lane, said}, i);
  }
}

// A device's threads compute the same, lane by lane and pack by pack.
TEST(ReducedStates, ADevicesElementsComputeTheSame) {
  TwoParameters parameters;
  const ExpectedStates expected(parameters, 1);
  UpdateArguments given = parameters.arguments();
  made_of_four()->update(given, {}, [&](const Kernel& kernel, const void* element) {
    if (const std::string_view name = kernel.name; name == ReduceRow<FourShapesKernel>::kName) {
      run_in_lanes(*static_cast<const ReduceRow<FourShapesKernel>*>(element));
    } else if (name == ReduceColumns<FourShapesKernel>::kName) {
      run_in_lanes(*static_cast<const ReduceColumns<FourShapesKernel>*>(element));
    } else if (name == MeasureChunk<FourShapesKernel>::kName) {
      run_in_lanes(*static_cast<const MeasureChunk<FourShapesKernel>*>(element));
    } else if (name == ReduceParameter<FourShapesKernel>::kName) {
      run_in_lanes(*static_cast<const ReduceParameter<FourShapesKernel>*>(element));
    } else if (name == UpdateElement<FourShapesKernel>::kName) {
      const auto& packs = *static_cast<const UpdateElement<FourShapesKernel>*>(element);
      for (std::int64_t i = 0; i < packs.size(); ++i) packs(i);
    } else {
      kernel.run_on_host(element, 0, kernel.units(element));
    }
  });
  parameters.for_each([&](std::size_t s, std::size_t i, std::size_t row, std::size_t, std::size_t column) {
    ASSERT_NEAR(parameters.array(2)[row], expected.rows[row], 1e-6);
    ASSERT_NEAR(parameters.array(3)[column], expected.columns[column], 1e-6);
    ASSERT_NEAR(parameters.array(4)[s], expected.all[s], 1e-6);
    ASSERT_NEAR(parameters.array(0)[i], expected.value[i], 1e-5);
  });
}

TEST(ReducedStates, StayWhereAScaleOfZeroSkipsTheUpdate) {
  TwoParameters untouched;
  const TwoParameters before = untouched;
  const float zero = 0;
  UpdateArguments at = untouched.arguments();
  at.scale = &zero;
  update_two(*made_of_four(), at);
  EXPECT_TRUE(untouched.same_bits(before));
}

TEST(ReducedStates, ThatAnOptimizerDoesNotKeepReadAsZero) {
  const auto optimizer = made_of_four(testkit::table({{"rows", Value(false)}}));
  ASSERT_EQ(optimizer->states().size(), 3U);
  EXPECT_EQ(optimizer->states()[0].shape, StateShape::columns);
  EXPECT_TRUE(optimizer->keeps_reduced());
  TwoParameters parameters;
  std::fill_n(parameters.array(1), TwoParameters::kSize, 0.0F);
  parameters.array(1)[0] = 1;
  const double value = parameters.array(0)[0], of_column = 0.25 / 5, of_all = 0.25 * value / 55 + 0.5;
  update_two(*optimizer, parameters.arguments(false));
  EXPECT_EQ(parameters.array(2)[0], 0.5F) << "untouched";
  EXPECT_NEAR(parameters.array(3)[0], of_column, 1e-7);
  const double direction = 2 * of_column + of_all;
  EXPECT_NEAR(parameters.array(0)[0], value - 0.125 * (direction + direction), 1e-6);
}

struct OfRowsWithElementsKernel {
  static constexpr int kStates = 1;
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&)[1]) const {
    value -= n.rate * gradient;
  }
};
struct OfRowsWithElements {
  struct Params {};
  static void describe(OptimizerDescription<Params>& d) { d.name("wrong").text("An optimizer.").state("rows", StateShape::rows); }
  explicit OfRowsWithElements(const Params&) {}
  OfRowsWithElementsKernel kernel(const UpdateTime&) const { return {}; }
};

TEST(ReducedStates, NeedAKernelThatMeasures) {
  EXPECT_MESSAGE(testkit::error_of([&] { optimizer_type<OfRowsWithElements>(); }).what());
}

}  // namespace
}  // namespace millrace
