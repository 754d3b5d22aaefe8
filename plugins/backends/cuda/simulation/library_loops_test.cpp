// Convolutions and products against sums written down by their definition, over channels without padding.
#include "simulation/library_loops.h"

#include <cmath>
#include <functional>

#include "millrace/error.h"
#include "simulation/simulation_fixture.h"

namespace millrace::cuda::library_loops_test {
namespace {

using Kind = ConvolutionShape::Kind;
using Index = std::int64_t;

// Small multiples of 1/8, which bf16 holds exactly.
double value_at(Index i, Index j, Index k, Index l) { return static_cast<double>((i * 7 + j * 5 + k * 3 + l * 11) % 13 - 6) / 8; }

class LibraryLoops : public SimulationTest {
 protected:
  static void put(std::byte* memory, DataType type, Index i, double value) {
    const auto single = static_cast<float>(value);
    if (type == DataType::f32) reinterpret_cast<float*>(memory)[i] = single;
    if (type == DataType::bf16) reinterpret_cast<Bf16*>(memory)[i] = from_float<Bf16>(single);
  }
  static double get(const std::byte* memory, DataType type, Index i) {
    return static_cast<double>(type == DataType::f32 ? reinterpret_cast<const float*>(memory)[i]
                                                     : to_float(reinterpret_cast<const Bf16*>(memory)[i]));
  }
  static double tolerance(DataType type) { return type == DataType::bf16 ? 0.005 : 1e-6; }

  // Runs a plan over operands that `fill` has put values into.
  template <class Shape>
  void run(const Shape& shape, bool with_bias) {
    const std::shared_ptr<const LibraryPlan> plan = machine->plan(shape, {});
    LibraryRun work;
    work.plan = plan.get();
    work.x = x;
    work.w = w;
    work.y = y;
    if (with_bias) work.bias = reinterpret_cast<const float*>(bias);
    if (plan->workspace() > 0) work.workspace = machine->allocate(plan->workspace(), "workspace");
    a->run(work);
    machine->finish();
    expect_clean();
  }
  void allocate(const OperandBytes& bytes) {
    x = machine->allocate(bytes.x, "x");
    w = machine->allocate(bytes.w, "w");
    y = machine->allocate(bytes.y, "y");
    bias = machine->allocate(std::max<std::size_t>(bytes.bias, 4), "bias");
  }
  std::byte *x = nullptr, *w = nullptr, *y = nullptr, *bias = nullptr;
};

struct Case {
  const char* name;
  ConvolutionShape shape;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"Plain", {.n = 2, .c = 3, .h = 5, .w = 4, .k = 5, .kernel_h = 3, .kernel_w = 2}},
    {"Wide", {.n = 1, .c = 20, .h = 3, .w = 3, .k = 9, .kernel_h = 2, .kernel_w = 2, .top = 1}},
    {"StrideAndPadding",
     {.n = 2,
      .c = 8,
      .h = 7,
      .w = 6,
      .k = 16,
      .kernel_h = 3,
      .kernel_w = 2,
      .stride_h = 2,
      .stride_w = 3,
      .top = 1,
      .left = 0,
      .bottom = 2,
      .right = 1}},
    {"Dilated",
     {.n = 1,
      .c = 3,
      .h = 7,
      .w = 7,
      .k = 8,
      .kernel_h = 3,
      .kernel_w = 3,
      .dilation_h = 2,
      .dilation_w = 3,
      .top = 2,
      .left = 3,
      .bottom = 2,
      .right = 3}},
    {"Groups",
     {.n = 2,
      .c = 6,
      .h = 4,
      .w = 4,
      .k = 9,
      .kernel_h = 3,
      .kernel_w = 3,
      .top = 1,
      .left = 1,
      .bottom = 1,
      .right = 1,
      .groups = 3}},
    {"Depthwise",
     {.n = 2,
      .c = 10,
      .h = 5,
      .w = 4,
      .k = 10,
      .kernel_h = 3,
      .kernel_w = 3,
      .stride_h = 2,
      .stride_w = 2,
      .top = 1,
      .left = 1,
      .bottom = 1,
      .right = 1,
      .groups = 10}},
    {"Pointwise", {.n = 3, .c = 4, .h = 2, .w = 3, .k = 7, .stride_w = 2}},
};

// The definition: y(n, k, i, j) sums x(n, c, row, column) * w(k, c, r, s) over all (c, r, s); each kind sums the same terms.
struct Term {
  Index n, c, row, column, k, i, j, r, s;
};
void for_each_term(const ConvolutionShape& p, const std::function<void(const Term&)>& each) {
  const Index in = p.c / p.groups, out = p.k / p.groups;
  for (Index n = 0; n < p.n; ++n)
    for (Index k = 0; k < p.k; ++k)
      for (Index i = 0; i < p.out_h; ++i)
        for (Index j = 0; j < p.out_w; ++j)
          for (Index c = 0; c < in; ++c)
            for (Index r = 0; r < p.kernel_h; ++r)
              for (Index s = 0; s < p.kernel_w; ++s) {
                const Index row = i * p.stride_h + r * p.dilation_h - p.top, column = j * p.stride_w + s * p.dilation_w - p.left;
                if (row >= 0 && row < p.h && column >= 0 && column < p.w) each({n, k / out * in + c, row, column, k, i, j, r, s});
              }
}

class Convolutions : public LibraryLoops, public testing::WithParamInterface<std::tuple<Case, DataType, Kind>> {
 protected:
  Convolutions() : shape(std::get<Case>(GetParam()).shape) {
    shape.type = std::get<DataType>(GetParam());
    shape.kind = std::get<Kind>(GetParam());
    shape.out_h = (shape.h + shape.top + shape.bottom - shape.dilation_h * (shape.kernel_h - 1) - 1) / shape.stride_h + 1;
    shape.out_w = (shape.w + shape.left + shape.right - shape.dilation_w * (shape.kernel_w - 1) - 1) / shape.stride_w + 1;
    allocate(operand_bytes(shape));
  }
  Index x_at(Index n, Index c, Index i, Index j) const { return ((n * shape.h + i) * shape.w + j) * pitch_of(shape.c) + c; }
  Index y_at(Index n, Index k, Index i, Index j) const {
    return ((n * shape.out_h + i) * shape.out_w + j) * pitch_of(shape.k) + k;
  }
  // c counts from the first channel of the group
  Index w_at(Index k, Index c, Index r, Index s) const {
    const bool depthwise = shape.groups > 1 && shape.groups == shape.c && shape.groups == shape.k;
    const Index in = shape.groups == 1 ? pitch_of(shape.c) : depthwise ? 1 : shape.c / shape.groups;
    return ((k * shape.kernel_h + r) * shape.kernel_w + s) * in + c;
  }
  DataType w_type() const { return shape.kind == Kind::weight_gradient ? DataType::f32 : shape.type; }
  Index w_at(const Term& t) const { return w_at(t.k, t.c % (shape.c / shape.groups), t.r, t.s); }
  Index x_at(const Term& t) const { return x_at(t.n, t.c, t.row, t.column); }
  Index y_at(const Term& t) const { return y_at(t.n, t.k, t.i, t.j); }

  void fill_operands() {
    for (Index n = 0; n < shape.n; ++n) {
      for (Index c = 0; c < shape.c; ++c)
        for (Index i = 0; i < shape.h; ++i)
          for (Index j = 0; j < shape.w; ++j) put(x, shape.type, x_at(n, c, i, j), value_at(n, c, i, j));
      for (Index k = 0; k < shape.k; ++k)
        for (Index i = 0; i < shape.out_h; ++i)
          for (Index j = 0; j < shape.out_w; ++j) put(y, shape.type, y_at(n, k, i, j), value_at(n + 5, k, j, i));
    }
    for (Index k = 0; k < shape.k; ++k)
      for (Index c = 0; c < shape.c / shape.groups; ++c)
        for (Index r = 0; r < shape.kernel_h; ++r)
          for (Index s = 0; s < shape.kernel_w; ++s) put(w, w_type(), w_at(k, c, r, s), value_at(c, k, r, s));
  }
  void expect_sums(const std::byte* result, DataType type, const std::vector<double>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double found = get(result, type, static_cast<Index>(i));
      ASSERT_NEAR(found, expected[i], tolerance(type) * std::max(1.0, std::abs(expected[i]))) << "element " << i;
    }
  }
  ConvolutionShape shape;
};

TEST_P(Convolutions, SumWhatTheDefinitionSays) {
  fill_operands();
  const OperandBytes bytes = operand_bytes(shape);
  std::vector<double> dx(bytes.x / size_of(shape.type)), dw(bytes.w / size_of(w_type())), out(bytes.y / size_of(shape.type));
  for_each_term(shape, [&](const Term& t) {
    const double at_x = get(x, shape.type, x_at(t)), at_w = get(w, w_type(), w_at(t)), at_y = get(y, shape.type, y_at(t));
    out[static_cast<std::size_t>(y_at(t))] += at_x * at_w;
    dx[static_cast<std::size_t>(x_at(t))] += at_y * at_w;
    dw[static_cast<std::size_t>(w_at(t))] += at_x * at_y;
  });
  run(shape, false);
  if (shape.kind == Kind::forward) expect_sums(y, shape.type, out);  // padding too: nothing was added to it
  if (shape.kind == Kind::data_gradient) expect_sums(x, shape.type, dx);
  if (shape.kind == Kind::weight_gradient) expect_sums(w, DataType::f32, dw);
}

std::string name_of(const testing::TestParamInfo<Convolutions::ParamType>& info) {
  constexpr const char* kKinds[] = {"Forward", "DataGradient", "WeightGradient"};
  return std::string(std::get<Case>(info.param).name) + kKinds[static_cast<int>(std::get<Kind>(info.param))] +
         (std::get<DataType>(info.param) == DataType::f32 ? "Float" : "Bf16");
}

INSTANTIATE_TEST_SUITE_P(All, Convolutions,
                         testing::Combine(testing::ValuesIn(kCases), testing::Values(DataType::f32, DataType::bf16),
                                          testing::Values(Kind::forward, Kind::data_gradient, Kind::weight_gradient)),
                         name_of);

TEST_F(LibraryLoops, AConvolutionComputedByHand) {
  // One channel, 1 x 3 pixels (1 2 3), kernel 1 x 2 (10 1): 10 + 2 = 12, 20 + 3 = 23; bias -20; ReLU.
  ConvolutionShape shape{.n = 1, .c = 1, .h = 1, .w = 3, .k = 1, .out_h = 1, .out_w = 2, .kernel_w = 2};
  shape.bias = true;
  shape.activation = Activation::relu;
  const OperandBytes bytes = operand_bytes(shape);
  EXPECT_EQ(bytes.x, 3U * 8 * 4);
  EXPECT_EQ(bytes.w, 8U * 2 * 8 * 4);
  EXPECT_EQ(bytes.y, 2U * 8 * 4);
  EXPECT_EQ(bytes.bias, 8U * 4);
  allocate(bytes);
  for (Index i = 0; i < 3; ++i) put(x, DataType::f32, i * 8, static_cast<double>(i + 1));
  put(w, DataType::f32, 0, 10);
  put(w, DataType::f32, 8, 1);
  put(bias, DataType::f32, 0, -20);
  run(shape, true);
  EXPECT_EQ(get(y, DataType::f32, 0), 0);
  EXPECT_EQ(get(y, DataType::f32, 8), 3);
}

TEST_F(LibraryLoops, ProductsComputedByHand) {
  // Rows (1 2 0 ...) and (3 -1 0 ...); weights (1 1), (2 0), (0 -1): y = (3 2 -2), (2 6 1).
  LinearShape shape{.rows = 2, .in = 8, .out = 8, .bias = true};
  allocate(operand_bytes(shape));
  const auto put_at = [](std::byte* memory, Index row, Index column, double value) {
    put(memory, DataType::f32, row * 8 + column, value);
  };
  put_at(x, 0, 0, 1), put_at(x, 0, 1, 2), put_at(x, 1, 0, 3), put_at(x, 1, 1, -1);
  put_at(w, 0, 0, 1), put_at(w, 0, 1, 1), put_at(w, 1, 0, 2), put_at(w, 2, 1, -1);
  put_at(bias, 0, 2, 0.5);
  run(shape, true);
  const std::vector<double> expected = {3, 2, -1.5, 0, 2, 6, 1.5, 0};
  for (Index i = 0; i < 8; ++i) EXPECT_EQ(get(y, DataType::f32, i / 4 * 8 + i % 4), expected[static_cast<std::size_t>(i)]);

  shape = {.kind = Kind::weight_gradient, .rows = 2, .in = 8, .out = 8};  // dw(k, c) = sum of y(row, k) * x(row, c)
  run(shape, false);
  EXPECT_EQ(get(w, DataType::f32, 0), 3 * 1 + 2 * 3);
  EXPECT_EQ(get(w, DataType::f32, 2 * 8 + 1), -1.5 * 2 + 1.5 * -1);

  shape.kind = Kind::data_gradient;  // dx(row, c) = sum of y(row, k) * w(k, c), with the weights just written
  run(shape, false);
  // w(0..2, 1): 3 * 2 - 2, 2 * 2 - 6, -4.5
  EXPECT_EQ(get(x, DataType::f32, 1), 3 * 4.0 + 2 * -2.0 + -1.5 * -4.5);
}

TEST_F(LibraryLoops, LogitsOfBf16MayBeFloat) {
  LinearShape shape{.type = DataType::bf16, .result = DataType::f32, .rows = 1, .in = 8, .out = 8};
  const OperandBytes bytes = operand_bytes(shape);
  EXPECT_EQ(bytes.x, 16U);
  EXPECT_EQ(bytes.w, 128U);
  EXPECT_EQ(bytes.y, 32U);
  allocate(bytes);
  for (Index i = 0; i < 3; ++i) {
    put(x, DataType::bf16, i, 1 + 1.0 / 128);
    put(w, DataType::bf16, i, 1 + 1.0 / 128);
  }
  run(shape, false);
  EXPECT_EQ(get(y, DataType::f32, 0), 3 * (1 + 1.0 / 128) * (1 + 1.0 / 128)) << "not rounded to bf16";
}

TEST_F(LibraryLoops, Tf32RoundsItsInputs) {
  LinearShape shape{.rows = 1, .in = 8, .out = 8, .tf32 = true};
  allocate(operand_bytes(shape));
  put(x, DataType::f32, 0, 1 + 1.0 / 4096);
  put(x, DataType::f32, 1, 1 + 1.0 / 1024);
  put(w, DataType::f32, 0, 1);
  put(w, DataType::f32, 8 + 1, 1);
  run(shape, false);
  EXPECT_EQ(get(y, DataType::f32, 0), 1);
  EXPECT_EQ(get(y, DataType::f32, 1), 1 + 1.0 / 1024);
}

TEST_F(LibraryLoops, GeluIsExact) {
  LinearShape shape{.rows = 1, .in = 8, .out = 8, .activation = Activation::gelu};
  allocate(operand_bytes(shape));
  put(x, DataType::f32, 0, 1);
  put(w, DataType::f32, 0, 1.5);
  run(shape, false);
  EXPECT_NEAR(get(y, DataType::f32, 0), 1.5 * 0.5 * (1 + std::erf(1.5 / std::sqrt(2.0))), 1e-6);
  EXPECT_EQ(get(y, DataType::f32, 1), 0);
}

TEST_F(LibraryLoops, RefuseWhatDoesNotFit) {
  const auto message = [this](const ConvolutionShape& shape) -> std::string {
    try {
      machine->plan(shape, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
    return "";
  };
  const ConvolutionShape good{.n = 1, .c = 8, .h = 4, .w = 4, .k = 8, .out_h = 3, .out_w = 4, .kernel_h = 2};
  EXPECT_EQ(message(good), "");
  ConvolutionShape bad = good;
  bad.out_h = 4;
  EXPECT_EQ(message(bad), "height: a convolution with this window has 3 outputs, not 4");
  bad = good;
  bad.groups = 3;
  EXPECT_EQ(message(bad), "8 and 8 channels cannot be cut into 3 groups");
  bad = good;
  bad.type = DataType::u8;
  EXPECT_EQ(message(bad), "no engine computes in u8");
}

TEST_F(LibraryLoops, WantAlignedOperandsAndTheirWorkspace) {
  const LinearShape shape{.rows = 1, .in = 8, .out = 8};
  const std::shared_ptr<const LibraryPlan> plan = machine->plan(shape, {});
  allocate(operand_bytes(shape));
  LibraryRun work;
  work.plan = plan.get();
  work.x = x, work.w = w, work.y = y;
  EXPECT_THROW(a->run(work), Error) << "no workspace";
  work.workspace = machine->allocate(plan->workspace(), "workspace");
  work.x = x + 4;
  EXPECT_THROW(a->run(work), Error) << "not aligned";
  work.x = x;
  a->run(work);
  b->run(work);  // shares the result and the workspace
  expect_only("missing wait", 2);
  EXPECT_TRUE(std::isnan(contents(static_cast<const float*>(work.workspace), 1)[0])) << "nothing of use is left in it";
}

}  // namespace
}  // namespace millrace::cuda::library_loops_test
