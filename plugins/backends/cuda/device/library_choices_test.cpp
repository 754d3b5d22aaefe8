// Properties of the libraries' plans that need neither a device nor the libraries: extents, products, epilogues, rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "cublaslt/linear.h"
#include "cudnn/convolution.h"
#include "millrace/error.h"

namespace millrace::cuda {
namespace {

using Kind = ConvolutionShape::Kind;

// ---- Matrix products ----

// BLAS's definition: columns, leading extents, transposition.
std::vector<double> multiply(const Product& product, const std::vector<double>& a, const std::vector<double>& b) {
  const auto at = [](const ProductOperand& operand, const std::vector<double>& values, std::int64_t i, std::int64_t j) {
    if (operand.transposed) std::swap(i, j);
    return values[static_cast<std::size_t>(i + j * operand.rows)];
  };
  const std::int64_t inner = product.a.transposed ? product.a.rows : product.a.columns;
  EXPECT_EQ(inner, product.b.transposed ? product.b.columns : product.b.rows);
  EXPECT_EQ(product.d.rows, product.a.transposed ? product.a.columns : product.a.rows);
  EXPECT_EQ(product.d.columns, product.b.transposed ? product.b.rows : product.b.columns);
  std::vector<double> d(static_cast<std::size_t>(product.d.rows * product.d.columns));
  for (std::int64_t i = 0; i < product.d.rows; ++i)
    for (std::int64_t j = 0; j < product.d.columns; ++j)
      for (std::int64_t k = 0; k < inner; ++k)
        d[static_cast<std::size_t>(i + j * product.d.rows)] += at(product.a, a, i, k) * at(product.b, b, k, j);
  return d;
}

std::vector<double> numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> digit(-4, 4);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = digit(random);
  return values;
}

class ProductTest : public testing::Test {
 protected:
  static constexpr std::int64_t kRows = 5, kIn = 8, kOut = 16;
  const std::vector<double> x_ = numbers(kRows * kIn, 1), w_ = numbers(kOut * kIn, 2), y_ = numbers(kRows * kOut, 3);

  const std::vector<double>& matrix(const ProductOperand& operand) const {
    return operand.of == ProductOperand::Of::x ? x_ : operand.of == ProductOperand::Of::w ? w_ : y_;
  }
  static LinearShape shape(Kind kind) {
    return {.kind = kind, .type = DataType::bf16, .result = DataType::f32, .rows = kRows, .in = kIn, .out = kOut};
  }
  std::vector<double> computed(Kind kind) const {
    const Product product = product_of(shape(kind));
    return multiply(product, matrix(product.a), matrix(product.b));
  }
  // sum over k of p[i * pi + k * pk] * q[j * qj + k * qk], row by row.
  static std::vector<double> sums(std::int64_t rows, std::int64_t columns, std::int64_t inner, const std::vector<double>& p,
                                  std::int64_t pi, std::int64_t pk, const std::vector<double>& q, std::int64_t qj,
                                  std::int64_t qk) {
    std::vector<double> result;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < inner; ++k)
          sum += p[static_cast<std::size_t>(i * pi + k * pk)] * q[static_cast<std::size_t>(j * qj + k * qk)];
        result.push_back(sum);
      }
    return result;
  }
};

TEST_F(ProductTest, ForwardIsRowsByRowsOfWeights) {
  EXPECT_EQ(computed(Kind::forward), sums(kRows, kOut, kIn, x_, kIn, 1, w_, kIn, 1));
  const Product product = product_of(shape(Kind::forward));
  EXPECT_EQ(product.d.of, ProductOperand::Of::y);
  EXPECT_EQ(product.d.rows, kOut);  // the length of a bias
  EXPECT_EQ(product.d.type, DataType::f32);
  EXPECT_EQ(product.a.type, DataType::bf16);
}

TEST_F(ProductTest, DataGradientSumsOverOutputs) {
  EXPECT_EQ(computed(Kind::data_gradient), sums(kRows, kIn, kOut, y_, kOut, 1, w_, 1, kIn));
  const Product product = product_of(shape(Kind::data_gradient));
  EXPECT_EQ(product.d.of, ProductOperand::Of::x);
  EXPECT_EQ(product.d.type, DataType::bf16);
}

TEST_F(ProductTest, WeightGradientSumsOverRowsAndIsFloat) {
  EXPECT_EQ(computed(Kind::weight_gradient), sums(kOut, kIn, kRows, y_, 1, kOut, x_, 1, kIn));
  const Product product = product_of(shape(Kind::weight_gradient));
  EXPECT_EQ(product.d.of, ProductOperand::Of::w);
  EXPECT_EQ(product.d.type, DataType::f32);
}

LinearShape with(DataType result, bool bias, Activation activation) {
  return {.type = DataType::bf16, .result = result, .rows = 2, .in = 8, .out = 8, .bias = bias, .activation = activation};
}

TEST(ProductEpilogueTest, TakesOnlyWhatCublasLtComputesAsWeDo) {
  const ProductEpilogue to_float = epilogue_of(with(DataType::f32, true, Activation::relu));
  EXPECT_TRUE(to_float.bias && to_float.relu && to_float.all);
  const ProductEpilogue to_bf16 = epilogue_of(with(DataType::bf16, true, Activation::relu));  // its bias would be bf16
  EXPECT_FALSE(to_bf16.bias || to_bf16.relu || to_bf16.all);
  const ProductEpilogue unbiased = epilogue_of(with(DataType::bf16, false, Activation::relu));
  EXPECT_TRUE(!unbiased.bias && unbiased.relu && unbiased.all);
  const ProductEpilogue gelu = epilogue_of(with(DataType::f32, true, Activation::gelu));  // its GELU differs
  EXPECT_FALSE(gelu.bias || gelu.relu || gelu.all);
  LinearShape gradient = with(DataType::f32, false, Activation::none);
  gradient.kind = Kind::weight_gradient;
  EXPECT_TRUE(epilogue_of(gradient).all);
}

TEST(ProductChoiceTest, SurvivesAsText) {
  const LinearShape shape = with(DataType::f32, true, Activation::relu);
  ProductChoice choice{.epilogue = epilogue_of(shape)};
  for (std::size_t i = 0; i < std::size(choice.algorithm.data); ++i) choice.algorithm.data[i] = 0x0123456789abcdefU * (i + 1);
  const std::string text = save(choice);
  const auto back = decode_choice(shape, text);
  ASSERT_TRUE(back);
  EXPECT_TRUE(std::equal(std::begin(choice.algorithm.data), std::end(choice.algorithm.data), std::begin(back->algorithm.data)));
  EXPECT_TRUE(back->epilogue.bias && back->epilogue.relu);
  for (std::size_t end = 0; end < text.size(); ++end) {
    if (text[end] != ' ') continue;
    EXPECT_FALSE(decode_choice(shape, text.substr(0, end))) << end;
  }
  EXPECT_FALSE(decode_choice(shape, text + " 1"));
  EXPECT_FALSE(decode_choice(shape, "whole x"));
  EXPECT_FALSE(decode_choice(with(DataType::f32, true, Activation::gelu), text));  // incomplete texts
}

// cuBLASLt makes its descriptors without a device, and verifies the attributes' names and sizes.
TEST(ProductDescriptionTest, IsTakenByCublasLt) {
  std::unique_ptr<const CublasLtApi> api;
  try {
    api = std::make_unique<const CublasLtApi>();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  for (const Kind kind : {Kind::forward, Kind::data_gradient, Kind::weight_gradient}) {
    for (const DataType type : {DataType::f32, DataType::bf16}) {
      LinearShape shape = with(DataType::f32, true, Activation::relu);
      shape.kind = kind;
      shape.type = type;
      const ProductDescription description(*api, shape, epilogue_of(shape));
      EXPECT_NE(description.product(nullptr), nullptr);
      EXPECT_NE(preference_of(*api, shape, {.deterministic = true}), nullptr);
    }
  }
  EXPECT_GE(api->version(), 130000U);
}

// ---- Convolutions ----

ConvolutionShape convolution(std::int64_t c, std::int64_t k, std::int64_t groups) {
  ConvolutionShape shape;
  shape.n = 2, shape.c = c, shape.k = k, shape.groups = groups;
  shape.h = shape.w = shape.out_h = shape.out_w = 4;
  shape.kernel_h = shape.kernel_w = 3;
  shape.top = shape.left = shape.bottom = shape.right = 1;
  return shape;
}

TEST(ConvolutionExtentsTest, PaddingTakesPartWhereItAddsZeros) {
  const ConvolutionExtents plain = extents_of(convolution(3, 20, 1));
  EXPECT_EQ(plain.c, 8);
  EXPECT_EQ(plain.k, 24);
  EXPECT_EQ(plain.filter_c, 8);
  EXPECT_EQ(plain.filter_elements, 24 * 3 * 3 * 8);
  const ConvolutionExtents depthwise = extents_of(convolution(12, 12, 12));
  EXPECT_EQ(depthwise.c, 16);
  EXPECT_EQ(depthwise.k, 16);
  EXPECT_EQ(depthwise.filter_c, 1);
  const ConvolutionExtents grouped = extents_of(convolution(12, 18, 3));
  EXPECT_EQ(grouped.c, 12);
  EXPECT_EQ(grouped.x_pitch, 16);
  EXPECT_EQ(grouped.k, 18);
  EXPECT_EQ(grouped.y_pitch, 24);
  EXPECT_EQ(grouped.filter_c, 4);
}

TEST(ConvolutionText, TellsAllShapesApart) {
  const ConvolutionShape base = convolution(16, 32, 1);
  std::vector<ConvolutionShape> shapes(1, base);
  const auto add = [&](auto change) { change(shapes.emplace_back(base)); };
  for (auto field : {&ConvolutionShape::n, &ConvolutionShape::c, &ConvolutionShape::h, &ConvolutionShape::w, &ConvolutionShape::k,
                     &ConvolutionShape::out_h, &ConvolutionShape::out_w, &ConvolutionShape::kernel_h, &ConvolutionShape::kernel_w,
                     &ConvolutionShape::stride_h, &ConvolutionShape::stride_w, &ConvolutionShape::dilation_h,
                     &ConvolutionShape::dilation_w, &ConvolutionShape::top, &ConvolutionShape::left, &ConvolutionShape::bottom,
                     &ConvolutionShape::right, &ConvolutionShape::groups}) {
    add([&](ConvolutionShape& shape) { shape.*field = 77; });
  }
  add([](ConvolutionShape& shape) { shape.kind = Kind::data_gradient; });
  add([](ConvolutionShape& shape) { shape.kind = Kind::weight_gradient; });
  add([](ConvolutionShape& shape) { shape.type = DataType::bf16; });
  add([](ConvolutionShape& shape) { shape.bias = true; });
  add([](ConvolutionShape& shape) { shape.activation = Activation::relu; });
  add([](ConvolutionShape& shape) { shape.activation = Activation::gelu; });
  add([](ConvolutionShape& shape) { shape.tf32 = true; });
  add([](ConvolutionShape& shape) { shape.accumulate = true; });
  std::map<std::string, int> seen;
  for (const ConvolutionShape& shape : shapes) EXPECT_EQ(++seen[text_of(shape)], 1) << text_of(shape);
}

TEST(EngineRulesTest, ExactFloatShunsTensorCores) {
  const auto allows = [](EngineRules rules, std::vector<cudnnBackendNumericalNote_t> notes) { return rules.allow(notes); };
  const EngineRules exact{.type = DataType::f32}, tf32{.type = DataType::f32, .tf32 = true}, bf16{.type = DataType::bf16};
  EXPECT_TRUE(allows(exact, {}));
  EXPECT_FALSE(allows(exact, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}));
  EXPECT_TRUE(allows(tf32, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}));
  EXPECT_TRUE(allows(bf16, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}));
  for (const EngineRules& rules : {exact, tf32}) EXPECT_FALSE(allows(rules, {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}));
  for (const EngineRules& rules : {exact, tf32, bf16}) {
    EXPECT_FALSE(allows(rules, {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}));
    EXPECT_TRUE(allows(rules, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}));
  }
  EXPECT_FALSE(allows({.type = DataType::bf16, .deterministic = true}, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}));
}

// ---- Searches ----

constexpr EngineRules kTwoCompiled{.type = DataType::bf16, .most_compiled = 2};

// An engine of an imaginary library.
struct Engine {
  std::string name;
  bool compiled = false;
  bool works = true;
  double seconds = 0;  // its run time
  double costs = 0;    // seconds of the search
};

struct Found {
  std::string name;
  std::vector<std::string> tried;  // in order
};

Found search(const std::vector<Engine>& engines, SearchLimits limits, const EngineRules& rules = kTwoCompiled) {
  Found found;
  EngineGate gate(rules);
  double now = 0;
  std::size_t at = 0;
  const auto next = [&] { return at < engines.size() ? std::optional(engines[at++]) : std::nullopt; };
  const auto attempt = [&](const Engine& engine) -> std::optional<Timed<std::string>> {
    EngineNotes notes;
    if (engine.compiled) notes.behavior.push_back(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
    if (!gate.refuse(notes).empty()) return std::nullopt;
    found.tried.push_back(engine.name);
    now += engine.costs;
    return engine.works ? std::optional(Timed<std::string>{engine.name, engine.seconds}) : std::nullopt;
  };
  const auto best = search_plans(
      limits, [&] { return now; }, next, attempt);
  if (best) found.name = best->plan;
  return found;
}

using Names = std::vector<std::string>;

TEST(Search, TakesTheFirstThatWorks) {
  const Found found = search({{.name = "a", .works = false}, {.name = "b"}, {.name = "c"}}, {.deadline = 1});
  EXPECT_EQ(found.name, "b");
  EXPECT_EQ(found.tried, (Names{"a", "b"}));
  EXPECT_EQ(search({{.name = "a", .works = false}}, {.deadline = 1}).name, "");
}

TEST(Search, TakesTheFastestOfSeveralAndTheFirstOfEquals) {
  const std::vector<Engine> engines = {{.name = "a", .seconds = 3},
                                       {.name = "b", .works = false, .seconds = 0},
                                       {.name = "c", .seconds = 1},
                                       {.name = "d", .seconds = 1},
                                       {.name = "e", .seconds = std::numeric_limits<double>::infinity()},
                                       {.name = "f", .seconds = 0.5}};
  EXPECT_EQ(search(engines, {.most = 4, .deadline = 1}).name, "c");  // five were tried, and one failed
  EXPECT_EQ(search(engines, {.most = 10, .deadline = 1}).name, "f");
}

TEST(Search, WithoutTimingsTheFirstIsTaken) {
  const double untried = std::numeric_limits<double>::infinity();
  EXPECT_EQ(search({{.name = "a", .seconds = untried}, {.name = "b", .seconds = untried}}, {.most = 2, .deadline = 1}).name, "a");
}

TEST(Search, EndsWithTheBestSoFarWhenTimeIsUp) {
  const std::vector<Engine> engines = {
      {.name = "a", .seconds = 3, .costs = 1}, {.name = "b", .seconds = 2, .costs = 1}, {.name = "c", .seconds = 1, .costs = 1}};
  const Found found = search(engines, {.most = 10, .deadline = 2});
  EXPECT_EQ(found.name, "b");
  EXPECT_EQ(found.tried, (Names{"a", "b"}));
}

TEST(Search, GoesOnPastItsTimeOnlyWhereSomethingMustBeFound) {
  const std::vector<Engine> engines = {{.name = "a", .works = false, .costs = 5}, {.name = "b", .works = false}, {.name = "c"}};
  EXPECT_EQ(search(engines, {.deadline = 2, .insists = true}).name, "c");
  const Found given_up = search(engines, {.deadline = 2, .insists = false});
  EXPECT_EQ(given_up.name, "");
  EXPECT_EQ(given_up.tried, Names{"a"});
}

TEST(Search, CompilesNoMoreEnginesThanItMay) {
  const std::vector<Engine> engines = {{.name = "a", .compiled = true, .works = false},
                                       {.name = "b", .compiled = true, .works = false},
                                       {.name = "c", .compiled = true},
                                       {.name = "d"}};
  const Found fused = search(engines, {.deadline = 1});
  EXPECT_EQ(fused.name, "d");
  EXPECT_EQ(fused.tried, (Names{"a", "b", "d"}));
  EXPECT_EQ(search(engines, {.deadline = 1}, {.type = DataType::bf16}).tried, Names{"d"});  // like a bare convolution
}

// Engines that break the rules are not compiled, and do not count.
TEST(Search, CountsOnlyWhatIsCompiled) {
  EngineGate gate({.type = DataType::f32, .most_compiled = 1});
  const EngineNotes compiled{.numerical = {}, .behavior = {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}};
  const EngineNotes rounds{.numerical = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, .behavior = compiled.behavior};
  EXPECT_NE(gate.refuse(rounds), "");
  EXPECT_EQ(gate.refuse(compiled), "");
  EXPECT_NE(gate.refuse(compiled), "");
  EXPECT_EQ(gate.refuse({}), "");
}

TEST(PlanOptionsTest, SearchesHaveTheirTime) {
  EXPECT_EQ(PlanOptions{}.seconds(), kHeuristicSeconds);
  EXPECT_EQ(PlanOptions{.tune = Tune::measure}.seconds(), kMeasuredSeconds);
  EXPECT_EQ(PlanOptions{.search_seconds = 0.5}.seconds(), 0.5);
}

TEST(PlanOptionsTest, TheEnvironmentTurnsCompilationOff) {
  constexpr const char* kName = "MILLRACE_CUDA_RUNTIME_COMPILATION";
  unsetenv(kName);
  EXPECT_TRUE(compiles_by_environment());
  setenv(kName, "1", 1);
  EXPECT_TRUE(compiles_by_environment());
  setenv(kName, "0", 1);
  EXPECT_FALSE(compiles_by_environment());
  unsetenv(kName);
}

}  // namespace
}  // namespace millrace::cuda
