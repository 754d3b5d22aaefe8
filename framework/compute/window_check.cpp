#include "millrace/backend/window_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "millrace/detail/random.h"
#include "millrace/kernels/portable_element.h"

namespace millrace {
namespace {

using Axes = std::vector<std::vector<double>>;

enum Index : std::size_t { kN, kGroup, kChannel, kRow, kColumn };  // for x and y
enum OfWeights : std::size_t { kOfGroup, kK, kC };                 // kRow and kColumn are those of the kernel

std::size_t index_of(WindowOperand operand) { return static_cast<std::size_t>(operand); }

// Draws from -2, -1, 1 and 2. Products of one number per index are whole numbers that bf16 represents exactly.
std::vector<double> draw_signed(std::int64_t size, std::uint64_t seed) {
  static constexpr double kNumbers[] = {-2, -1, 1, 2};
  std::vector<double> numbers(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = kNumbers[mix64(combine(seed, i)) >> 62];
  return numbers;
}

void take_signs(std::vector<double>& numbers, const std::vector<double>& of) {
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::copysign(numbers[i], of[i]);
}

std::vector<double> magnitudes(std::vector<double> numbers) {
  for (double& number : numbers) number = std::abs(number);
  return numbers;
}

std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all(a.size());
  std::transform(a.begin(), a.end(), b.begin(), all.begin(), std::multiplies<>());
  return all;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

std::vector<double> scaled(std::vector<double> numbers, double by) {
  for (double& number : numbers) number *= by;
  return numbers;
}

std::vector<double> sums_over_side(const WindowShape::Side& side, WindowOperand result, const std::vector<double>& x,
                                   const std::vector<double>& w, const std::vector<double>& y) {
  std::vector<double> sums(result == WindowOperand::x ? x.size() : result == WindowOperand::w ? w.size() : y.size());
  for (std::int64_t out = 0; out < side.out; ++out) {
    for (std::int64_t i = 0; i < side.kernel; ++i) {
      const std::int64_t in = out * side.stride + i * side.dilation - side.before;
      if (in < 0 || in >= side.in) continue;
      const auto at_x = static_cast<std::size_t>(in), at_w = static_cast<std::size_t>(i), at_y = static_cast<std::size_t>(out);
      if (result == WindowOperand::y) sums[at_y] += x[at_x] * w[at_w];
      if (result == WindowOperand::x) sums[at_x] += w[at_w] * y[at_y];
      if (result == WindowOperand::w) sums[at_w] += x[at_x] * y[at_y];
    }
  }
  return sums;
}

bool all_zero(const std::vector<double>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double number) { return number == 0; });
}

// Calls sums(), which depends on `factors`, for one side or one channel. If signs cancel, every result would be zero and prove
// nothing; one factor's sign is then flipped.
template <class Sums>
std::vector<double> not_all_zero(std::vector<double>& factors, const Sums& sums) {
  std::vector<double> all = sums();
  for (std::size_t i = 0; i < factors.size() && all_zero(all); ++i) {
    factors[i] = -factors[i];
    all = sums();
  }
  return all;
}

// Iterates over an operand: rows along its contiguous axis, at positions of all others.
class Walk {
 public:
  explicit Walk(const ElementOffsets& elements) : axes_(elements.axes), inner_(inner_axis(elements.axes)) {
    for (std::size_t a = 0; a < axes_.size(); ++a) rows_ *= a == inner_ ? 1 : length(a);
  }

  std::int64_t rows() const { return rows_; }
  std::size_t inner() const { return inner_; }
  // One index for each axis; 0 for the inner one.
  std::vector<std::int64_t> position(std::int64_t row) const {
    std::vector<std::int64_t> at(axes_.size());
    for (std::size_t a = axes_.size(); a-- > 0;) {
      if (a == inner_) continue;
      at[a] = row % length(a);
      row /= length(a);
    }
    return at;
  }
  std::int64_t offset(const std::vector<std::int64_t>& at) const {
    std::int64_t sum = 0;
    for (std::size_t a = 0; a < axes_.size(); ++a) sum += a == inner_ ? 0 : axes_[a][static_cast<std::size_t>(at[a])];
    return sum;
  }
  double factor(const Axes& factors, const std::vector<std::int64_t>& at) const {
    double all = 1;
    for (std::size_t a = 0; a < axes_.size(); ++a) all *= a == inner_ ? 1 : factors[a][static_cast<std::size_t>(at[a])];
    return all;
  }

 private:
  std::int64_t length(std::size_t axis) const { return static_cast<std::int64_t>(axes_[axis].size()); }
  static std::size_t inner_axis(const std::vector<std::vector<std::int64_t>>& axes) {
    std::size_t best = axes.size() - 1;
    const auto neighbours = [&](std::size_t a) { return axes[a].size() > 1 && axes[a][1] - axes[a][0] == 1; };
    for (std::size_t a = axes.size(); a-- > 0;) {
      if (neighbours(a) && (!neighbours(best) || axes[a].size() > axes[best].size())) best = a;
    }
    return best;
  }

  const std::vector<std::vector<std::int64_t>>& axes_;
  const std::size_t inner_;
  std::int64_t rows_ = 1;
};

// An operand's factors, extended to the length of its axes with zeros for padding.
Axes padded(Axes factors, const ElementOffsets& elements) {
  for (std::size_t a = 0; a < factors.size(); ++a) factors[a].resize(elements.axes[a].size());
  return factors;
}

template <class T>
void fill_rows(const ElementOffsets& elements, const Axes& factors, T* data, std::int64_t begin, std::int64_t end) {
  const Walk walk(elements);
  const std::vector<std::int64_t>& inner = elements.axes[walk.inner()];
  const std::vector<double>& along = factors[walk.inner()];
  for (std::int64_t row = begin; row < end; ++row) {
    const std::vector<std::int64_t> at = walk.position(row);
    T* const to = data + walk.offset(at);
    const double factor = walk.factor(factors, at);
    for (std::size_t i = 0; i < inner.size(); ++i) to[inner[i]] = from_float<T>(static_cast<float>(factor * along[i]));
  }
}

}  // namespace

WindowCheck::WindowCheck(const WindowShape& shape, WindowOperand result, std::uint64_t draw) : shape_(shape), result_(result) {
  draw_factors(draw);
  agree_in_sign();
  contract(&Operand::value);
  contract(&Operand::magnitude);
}

void WindowCheck::draw_factors(std::uint64_t draw) {
  const WindowShape& s = shape_;
  const std::array<std::array<std::int64_t, 5>, 3> lengths = {{{s.n, s.groups, s.c, s.rows.in, s.columns.in},
                                                               {s.groups, s.k, s.c, s.rows.kernel, s.columns.kernel},
                                                               {s.n, s.groups, s.k, s.rows.out, s.columns.out}}};
  for (std::size_t o = 0; o < operands_.size(); ++o) {
    for (std::size_t index = 0; index < lengths[o].size(); ++index) {
      operands_[o].value[index] = draw_signed(lengths[o][index], combine(combine(draw, o), index));
      operands_[o].magnitude[index] = magnitudes(operands_[o].value[index]);
    }
  }
}

// An omitted part of a long sum must not cancel: both factors of its terms get the same sign. In bf16 a sum of very many such
// terms would hide a small part in its rounding, so signs stay as drawn there.
void WindowCheck::agree_in_sign() {
  constexpr std::int64_t kMax = 1024;
  Factors& x = operands_[index_of(WindowOperand::x)].value;
  Factors& w = operands_[index_of(WindowOperand::w)].value;
  Factors& y = operands_[index_of(WindowOperand::y)].value;
  if (result_ == WindowOperand::y && shape_.c <= kMax) take_signs(w[kC], x[kChannel]);
  if (result_ == WindowOperand::x && shape_.k <= kMax) take_signs(w[kK], y[kChannel]);
  if (result_ != WindowOperand::w) return;
  take_signs(y[kN], x[kN]);
  for (const auto& [side, index] : {std::pair(shape_.rows, kRow), std::pair(shape_.columns, kColumn)}) {
    for (std::int64_t out = 0; out < side.out; ++out) {  // at the window's centre
      const std::int64_t in = out * side.stride + side.kernel / 2 * side.dilation - side.before;
      double& factor = y[index][static_cast<std::size_t>(out)];
      if (in >= 0 && in < side.in) factor = std::copysign(factor, x[index][static_cast<std::size_t>(in)]);
    }
  }
}

void WindowCheck::contract(Factors Operand::*of) {
  Factors& x = operands_[index_of(WindowOperand::x)].*of;
  Factors& w = operands_[index_of(WindowOperand::w)].*of;
  Factors& y = operands_[index_of(WindowOperand::y)].*of;
  Factors& result = operands_[index_of(result_)].*of;
  Factors& turned = result_ == WindowOperand::w ? y : w;
  const auto dot_not_zero = [](const std::vector<double>& a, std::vector<double>& b) {
    return not_all_zero(b, [&] { return std::vector<double>{dot(a, b)}; }).front();
  };
  const auto contract_side = [&](const WindowShape::Side& side, std::size_t index) {  // rows and columns come last in all three
    result[index] = not_all_zero(turned[index], [&] { return sums_over_side(side, result_, x[index], w[index], y[index]); });
  };
  contract_side(shape_.rows, kRow);
  contract_side(shape_.columns, kColumn);
  switch (result_) {
    case WindowOperand::y:
      y[kN] = x[kN];
      y[kGroup] = product(x[kGroup], w[kOfGroup]);
      y[kChannel] = scaled(w[kK], dot_not_zero(x[kChannel], w[kC]));
      break;
    case WindowOperand::x:
      x[kN] = y[kN];
      x[kGroup] = product(y[kGroup], w[kOfGroup]);
      x[kChannel] = scaled(w[kC], dot_not_zero(y[kChannel], w[kK]));
      break;
    case WindowOperand::w:
      w[kOfGroup] = product(x[kGroup], y[kGroup]);
      w[kK] = scaled(y[kChannel], dot_not_zero(x[kN], y[kN]));
      w[kC] = x[kChannel];
      break;
  }
}

Axes WindowCheck::by_axis(WindowOperand operand, Factors Operand::*of) const {
  const Factors& factors = operands_[index_of(operand)].*of;
  if (operand == WindowOperand::w) return {factors.begin(), factors.end()};
  std::vector<double> channels;
  for (const double group : factors[kGroup]) {
    for (const double channel : factors[kChannel]) channels.push_back(group * channel);
  }
  return {factors[kN], channels, factors[kRow], factors[kColumn]};
}

std::int64_t WindowCheck::rows(const ElementOffsets& elements) const { return Walk(elements).rows(); }

void WindowCheck::fill(WindowOperand operand, const ElementOffsets& elements, void* data, std::int64_t begin,
                       std::int64_t end) const {
  const Axes factors = padded(by_axis(operand, &Operand::value), elements);
  elements.type == DataType::f32 ? fill_rows(elements, factors, static_cast<float*>(data), begin, end)
                                 : fill_rows(elements, factors, static_cast<Bf16*>(data), begin, end);
}

namespace {

// The allowed difference between actual and expected. Errors of many terms have random signs, so they grow with the square root
// of their number.
double allowed(DataType type, double expected, double magnitude, double rounding) {
  const double of_result = type == DataType::f32 ? 0x1p-23 : 0x1p-8;
  return of_result * std::abs(expected) + rounding * magnitude;
}
double rounding_of_sum(double of_term, double terms) { return of_term * std::max(1.0, std::sqrt(terms) / 8); }

struct Known {
  Axes value, magnitude;
};

template <class T>
WindowDifference compare_rows(const ElementOffsets& elements, const Known& known, const T* data, std::int64_t begin,
                              std::int64_t end, const WindowRounding& rounding) {
  const Walk walk(elements);
  const DataType rounded_to = rounding.narrow ? DataType::bf16 : elements.type;
  const std::vector<std::int64_t>& inner = elements.axes[walk.inner()];
  const std::vector<double>&value_along = known.value[walk.inner()], &magnitude_along = known.magnitude[walk.inner()];
  WindowDifference found;
  found.of = (end - begin) * static_cast<std::int64_t>(inner.size());
  for (std::int64_t row = begin; row < end; ++row) {
    std::vector<std::int64_t> at = walk.position(row);
    const T* const from = data + walk.offset(at);
    const double value = rounding.times * walk.factor(known.value, at);
    const double magnitude = rounding.times * walk.factor(known.magnitude, at);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      double expected = value * value_along[i], most = magnitude * magnitude_along[i];
      if (rounding.bias != nullptr) {
        const std::size_t channel = walk.inner() == 1 ? i : static_cast<std::size_t>(at[1]);
        const double bias = channel < rounding.bias->size() ? static_cast<double>((*rounding.bias)[channel]) : 0;
        expected += bias;
        most += std::abs(bias);
      }
      if (rounding.relu) expected = std::max(expected, 0.0);
      const auto is = static_cast<double>(to_float(from[inner[i]]));
      if (std::abs(is - expected) <= allowed(rounded_to, expected, most, rounding.of_term)) continue;  // true for NaN
      if (found.wrong++ > 0) continue;
      at[walk.inner()] = static_cast<std::int64_t>(i);
      // Avoids -0.
      found.first = fmt::format("element ({}) is {:.6g} and should be {:.6g}", fmt::join(at, ", "), is, expected + 0.0);
    }
  }
  return found;
}

}  // namespace

// Number of terms of a result, including those in the padding.
double WindowCheck::terms() const {
  const WindowShape& s = shape_;
  const double taps = static_cast<double>(s.rows.kernel * s.columns.kernel);
  if (result_ == WindowOperand::y) return taps * static_cast<double>(s.c);
  if (result_ == WindowOperand::x) return taps * static_cast<double>(s.k);
  return static_cast<double>(s.n * s.rows.out * s.columns.out);
}

WindowDifference WindowCheck::compare(const ElementOffsets& elements, const void* data, std::int64_t begin, std::int64_t end,
                                      const WindowRounding& rounding) const {
  const Known known{padded(by_axis(result_, &Operand::value), elements), padded(by_axis(result_, &Operand::magnitude), elements)};
  WindowRounding of_sums = rounding;
  of_sums.of_term = rounding_of_sum(rounding.of_term, terms() * rounding.times);
  return elements.type == DataType::f32 ? compare_rows(elements, known, static_cast<const float*>(data), begin, end, of_sums)
                                        : compare_rows(elements, known, static_cast<const Bf16*>(data), begin, end, of_sums);
}

WindowDifference WindowCheck::compare_bias(const float* data, double of_term) const {
  const double rounding = rounding_of_sum(of_term, static_cast<double>(shape_.n * shape_.rows.out * shape_.columns.out));
  const Factors& y = operands_[index_of(WindowOperand::y)].value;
  const Factors& sizes = operands_[index_of(WindowOperand::y)].magnitude;
  const auto over = [](const Factors& of, std::size_t index) { return dot(of[index], std::vector<double>(of[index].size(), 1)); };
  const auto rest = [&](const Factors& of) { return over(of, kN) * over(of, kRow) * over(of, kColumn); };
  WindowDifference found;
  for (std::size_t g = 0; g < y[kGroup].size(); ++g) {
    for (std::size_t k = 0; k < y[kChannel].size(); ++k, ++found.of) {
      const double expected = y[kGroup][g] * y[kChannel][k] * rest(y), most = sizes[kGroup][g] * sizes[kChannel][k] * rest(sizes);
      const auto is = static_cast<double>(data[found.of]);
      if (std::abs(is - expected) <= allowed(DataType::f32, expected, most, rounding)) continue;
      if (found.wrong++ == 0) found.first = fmt::format("bias {} is {:.6g} and should be {:.6g}", found.of, is, expected);
    }
  }
  return found;
}

std::vector<float> window_biases(std::size_t channels) {
  std::vector<float> values(channels);
  for (std::size_t i = 0; i < channels; ++i) values[i] = static_cast<float>(i % 7) - 3.0F;
  return values;
}

void merge(WindowDifference& into, WindowDifference&& other) {
  if (into.wrong == 0) into.first = std::move(other.first);
  into.wrong += other.wrong;
  into.of += other.of;
}

}  // namespace millrace
