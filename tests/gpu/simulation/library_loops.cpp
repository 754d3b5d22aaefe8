#include "simulation/library_loops.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

using Kind = ConvolutionShape::Kind;

// A matrix product is a convolution of one pixel, so there is only one kind of problem. Channels are counted as in memory.
struct Problem {
  Kind kind = Kind::forward;
  const char* name = "";
  DataType x_type = DataType::f32, w_type = DataType::f32, y_type = DataType::f32;
  std::int64_t n = 0, h = 1, w = 1, out_h = 1, out_w = 1;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, top = 0, left = 0;
  std::int64_t groups = 1, in = 0, out = 0;  // channels per group
  std::int64_t x_pitch = 0, y_pitch = 0;
  bool bias = false, tf32 = false, accumulate = false;
  Activation activation = Activation::none;
  std::size_t workspace = 0;

  std::int64_t x_elements() const { return n * h * w * x_pitch; }
  std::int64_t y_elements() const { return n * out_h * out_w * y_pitch; }
  std::int64_t taps() const { return kernel_h * kernel_w; }
  std::int64_t w_elements() const { return groups * out * taps() * in; }
};

// Not every kind needs a workspace, and those that do need different ones.
std::size_t workspace_of(Kind kind) {
  if (kind == Kind::forward) return 0;
  return kind == Kind::data_gradient ? 512 : 1280;
}

Problem problem_of(const ConvolutionShape& shape) {
  Problem p;
  p.kind = shape.kind;
  p.x_type = p.y_type = shape.type;
  p.w_type = shape.kind == Kind::weight_gradient ? DataType::f32 : shape.type;
  p.n = shape.n, p.h = shape.h, p.w = shape.w, p.out_h = shape.out_h, p.out_w = shape.out_w;
  p.kernel_h = shape.kernel_h, p.kernel_w = shape.kernel_w, p.stride_h = shape.stride_h, p.stride_w = shape.stride_w;
  p.dilation_h = shape.dilation_h, p.dilation_w = shape.dilation_w, p.top = shape.top, p.left = shape.left;
  p.x_pitch = pitch_of(shape.c), p.y_pitch = pitch_of(shape.k);
  if (shape.groups == 1) {
    p.in = p.x_pitch, p.out = p.y_pitch;
  } else if (shape.groups == shape.c && shape.groups == shape.k) {
    p.groups = p.x_pitch, p.in = p.out = 1;
  } else {
    p.groups = shape.groups, p.in = shape.c / shape.groups, p.out = shape.k / shape.groups;
  }
  p.bias = shape.kind == Kind::forward && shape.bias;
  p.activation = shape.kind == Kind::forward ? shape.activation : Activation::none;
  p.tf32 = shape.tf32;
  p.accumulate = shape.kind == Kind::data_gradient && shape.accumulate;
  p.workspace = workspace_of(shape.kind);
  constexpr const char* kNames[] = {"convolution", "convolution data gradient", "convolution weight gradient"};
  p.name = kNames[static_cast<int>(shape.kind)];
  return p;
}

Problem problem_of(const LinearShape& shape) {
  Problem p;
  p.kind = shape.kind;
  p.x_type = shape.type;
  p.w_type = shape.kind == Kind::weight_gradient ? DataType::f32 : shape.type;
  p.y_type = shape.kind == Kind::forward ? shape.result : shape.type;
  p.n = shape.rows;
  p.in = p.x_pitch = shape.in;
  p.out = p.y_pitch = shape.out;
  p.bias = shape.kind == Kind::forward && shape.bias;
  p.activation = shape.kind == Kind::forward ? shape.activation : Activation::none;
  p.tf32 = shape.tf32;
  p.workspace = shape.kind == Kind::forward ? 256 : 0;
  constexpr const char* kNames[] = {"product", "product data gradient", "product weight gradient"};
  p.name = kNames[static_cast<int>(shape.kind)];
  return p;
}

// ---- Operands ----

// Rounds to the nearest of 10 mantissa bits, as tensor cores do with float32.
float to_tf32(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7f800000U) == 0x7f800000U) return value;
  bits = (bits + 0x1000U) & ~0x1fffU;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

std::vector<double> loaded(const Problem& p, const void* from, DataType type, std::int64_t elements) {
  std::vector<double> values(static_cast<std::size_t>(elements));
  const auto load_from = [&](const auto* typed) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float value = to_float(typed[i]);
      values[i] = static_cast<double>(p.tf32 ? to_tf32(value) : value);
    }
  };
  type == DataType::f32 ? load_from(static_cast<const float*>(from)) : load_from(static_cast<const Bf16*>(from));
  return values;
}

double load_one(const void* from, DataType type, std::int64_t i) {
  return static_cast<double>(type == DataType::f32 ? static_cast<const float*>(from)[i]
                                                   : to_float(static_cast<const Bf16*>(from)[i]));
}

void store_one(void* to, DataType type, std::int64_t i, double value) {
  const auto single = static_cast<float>(value);
  if (type == DataType::f32) {
    static_cast<float*>(to)[i] = single;
  } else {
    static_cast<Bf16*>(to)[i] = from_float<Bf16>(single);
  }
}

// Adds `factor` times a row of values to a row of sums.
void add_row(double* sums, double factor, const double* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += factor * values[i];
}

// ---- The three kinds ----

// Calls each(x, y, tap) for all pixels of a sample's output and all taps of the kernel inside its input: x and y are pixels,
// counted through the batch.
template <class Each>
void for_each_tap(const Problem& p, std::int64_t sample, const Each& each) {
  for (std::int64_t i = 0; i < p.out_h; ++i)
    for (std::int64_t j = 0; j < p.out_w; ++j)
      for (std::int64_t tap = 0; tap < p.taps(); ++tap) {
        const std::int64_t row = i * p.stride_h - p.top + tap / p.kernel_w * p.dilation_h;
        const std::int64_t column = j * p.stride_w - p.left + tap % p.kernel_w * p.dilation_w;
        if (row < 0 || row >= p.h || column < 0 || column >= p.w) continue;
        each((sample * p.h + row) * p.w + column, (sample * p.out_h + i) * p.out_w + j, tap);
      }
}

// (groups, out, taps, in) -> (groups, taps, in, out): rows of outputs, for the inner loop.
std::vector<double> outputs_last(const Problem& p, const std::vector<double>& w) {
  std::vector<double> result(w.size());
  const std::int64_t inner = p.taps() * p.in;
  for (std::int64_t g = 0; g < p.groups; ++g)
    for (std::int64_t k = 0; k < p.out; ++k)
      for (std::int64_t i = 0; i < inner; ++i)
        result[static_cast<std::size_t>((g * inner + i) * p.out + k)] = w[static_cast<std::size_t>((g * p.out + k) * inner + i)];
  return result;
}

void forward(const Problem& p, const LibraryRun& run) {
  const std::vector<double> x = loaded(p, run.x, p.x_type, p.x_elements());
  const std::vector<double> w = outputs_last(p, loaded(p, run.w, p.w_type, p.w_elements()));
  std::vector<double> y(static_cast<std::size_t>(p.y_elements()), 0.0);
  for (std::int64_t n = 0; n < p.n; ++n)
    for_each_tap(p, n, [&](std::int64_t from, std::int64_t to, std::int64_t tap) {
      for (std::int64_t g = 0; g < p.groups; ++g)
        for (std::int64_t c = 0; c < p.in; ++c)
          add_row(&y[static_cast<std::size_t>(to * p.y_pitch + g * p.out)],
                  x[static_cast<std::size_t>(from * p.x_pitch + g * p.in + c)],
                  &w[static_cast<std::size_t>(((g * p.taps() + tap) * p.in + c) * p.out)], p.out);
    });
  for (std::int64_t i = 0; i < p.y_elements(); ++i) {
    double sum = y[static_cast<std::size_t>(i)];
    const std::int64_t channel = i % p.y_pitch;
    const bool computed = channel < p.groups * p.out;
    if (p.bias && computed) sum += static_cast<double>(run.bias[channel]);
    store_one(run.y, p.y_type, i, computed ? static_cast<double>(activate(p.activation, static_cast<float>(sum))) : 0.0);
  }
}

void data_gradient(const Problem& p, const LibraryRun& run) {
  const std::vector<double> dy = loaded(p, run.y, p.y_type, p.y_elements());
  const std::vector<double> w = loaded(p, run.w, p.w_type, p.w_elements());
  std::vector<double> dx(static_cast<std::size_t>(p.x_elements()), 0.0);
  for (std::int64_t n = 0; n < p.n; ++n)
    for_each_tap(p, n, [&](std::int64_t to, std::int64_t from, std::int64_t tap) {
      for (std::int64_t g = 0; g < p.groups; ++g)
        for (std::int64_t k = 0; k < p.out; ++k)
          add_row(&dx[static_cast<std::size_t>(to * p.x_pitch + g * p.in)],
                  dy[static_cast<std::size_t>(from * p.y_pitch + g * p.out + k)],
                  &w[static_cast<std::size_t>(((g * p.out + k) * p.taps() + tap) * p.in)], p.in);
    });
  for (std::int64_t i = 0; i < p.x_elements(); ++i) {
    const double before = p.accumulate ? load_one(run.x, p.x_type, i) : 0.0;
    store_one(run.x, p.x_type, i, before + dx[static_cast<std::size_t>(i)]);
  }
}

void weight_gradient(const Problem& p, const LibraryRun& run) {
  const std::vector<double> x = loaded(p, run.x, p.x_type, p.x_elements());
  const std::vector<double> dy = loaded(p, run.y, p.y_type, p.y_elements());
  std::vector<double> dw(static_cast<std::size_t>(p.w_elements()), 0.0);
  for (std::int64_t n = 0; n < p.n; ++n)
    for_each_tap(p, n, [&](std::int64_t from, std::int64_t to, std::int64_t tap) {
      for (std::int64_t g = 0; g < p.groups; ++g)
        for (std::int64_t k = 0; k < p.out; ++k)
          add_row(&dw[static_cast<std::size_t>(((g * p.out + k) * p.taps() + tap) * p.in)],
                  dy[static_cast<std::size_t>(to * p.y_pitch + g * p.out + k)],
                  &x[static_cast<std::size_t>(from * p.x_pitch + g * p.in)], p.in);
    });
  for (std::int64_t i = 0; i < p.w_elements(); ++i) store_one(run.w, p.w_type, i, dw[static_cast<std::size_t>(i)]);
}

// ---- Plans ----

class Loops final : public LoopPlan {
 public:
  explicit Loops(const Problem& problem)
      : problem_(problem),
        bytes_{static_cast<std::size_t>(problem.x_elements()) * size_of(problem.x_type),
               static_cast<std::size_t>(problem.w_elements()) * size_of(problem.w_type),
               static_cast<std::size_t>(problem.y_elements()) * size_of(problem.y_type),
               problem.bias ? static_cast<std::size_t>(problem.y_pitch) * sizeof(float) : 0} {}

  const char* name() const override { return problem_.name; }
  std::size_t workspace() const override { return problem_.workspace; }
  const OperandBytes& bytes() const { return bytes_; }

  std::vector<Use> uses(const LibraryRun& run) const override {
    const Kind kind = problem_.kind;
    require(run.x, 16, "x");
    require(run.w, 16, "w");
    require(run.y, 16, "y");
    std::vector<Use> result = {{run.x, bytes_.x, kind == Kind::data_gradient},
                               {run.w, bytes_.w, kind == Kind::weight_gradient},
                               {run.y, bytes_.y, kind == Kind::forward}};
    if (problem_.accumulate) result.push_back({run.x, bytes_.x, false});
    if (problem_.bias) {
      require(run.bias, 16, "bias");
      result.push_back({const_cast<float*>(run.bias), bytes_.bias, false});
    }
    if (problem_.workspace > 0) {
      require(run.workspace, 256, "workspace");
      result.push_back({run.workspace, problem_.workspace, true});
    }
    return result;
  }

  void execute(const LibraryRun& run) const override {
    if (problem_.workspace > 0) std::memset(run.workspace, 0xFF, problem_.workspace);
    switch (problem_.kind) {
      case Kind::forward: return forward(problem_, run);
      case Kind::data_gradient: return data_gradient(problem_, run);
      case Kind::weight_gradient: return weight_gradient(problem_, run);
    }
  }

 private:
  void require(const void* pointer, std::uintptr_t alignment, const char* what) const {
    if (pointer == nullptr) fail(ErrorKind::device, "{}: {} is missing", problem_.name, what);
    if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0)
      fail(ErrorKind::device, "{}: {} at {} is not aligned to {} bytes", problem_.name, what, pointer, alignment);
  }

  const Problem problem_;
  const OperandBytes bytes_;
};

void check_types(std::initializer_list<DataType> types) {
  for (const DataType type : types)
    if (type != DataType::f32 && type != DataType::bf16) fail(ErrorKind::usage, "no engine computes in {}", to_string(type));
}

void check_window(const char* what, std::int64_t extent, std::int64_t padding, std::int64_t kernel, std::int64_t stride,
                  std::int64_t dilation, std::int64_t out) {
  if (stride < 1 || dilation < 1 || kernel < 1) fail(ErrorKind::usage, "{}: stride, dilation and kernel begin at 1", what);
  const std::int64_t room = extent + padding - dilation * (kernel - 1) - 1;
  const std::int64_t expected = room < 0 ? 0 : room / stride + 1;
  if (expected != out) fail(ErrorKind::usage, "{}: a convolution with this window has {} outputs, not {}", what, expected, out);
}

}  // namespace

std::shared_ptr<const LibraryPlan> plan_in_loops(const ConvolutionShape& shape) {
  check_types({shape.type});
  if (shape.groups < 1 || shape.c % shape.groups != 0 || shape.k % shape.groups != 0)
    fail(ErrorKind::usage, "{} and {} channels cannot be cut into {} groups", shape.c, shape.k, shape.groups);
  check_window("height", shape.h, shape.top + shape.bottom, shape.kernel_h, shape.stride_h, shape.dilation_h, shape.out_h);
  check_window("width", shape.w, shape.left + shape.right, shape.kernel_w, shape.stride_w, shape.dilation_w, shape.out_w);
  return std::make_shared<Loops>(problem_of(shape));
}

std::shared_ptr<const LibraryPlan> plan_in_loops(const LinearShape& shape) {
  check_types({shape.type, shape.result});
  if (shape.in % kPack != 0 || shape.out % kPack != 0)
    fail(ErrorKind::usage, "rows of {} and {} elements are not pitches", shape.in, shape.out);
  return std::make_shared<Loops>(problem_of(shape));
}

OperandBytes operand_bytes(const ConvolutionShape& shape) { return Loops(problem_of(shape)).bytes(); }
OperandBytes operand_bytes(const LinearShape& shape) { return Loops(problem_of(shape)).bytes(); }

}  // namespace millrace::cuda
