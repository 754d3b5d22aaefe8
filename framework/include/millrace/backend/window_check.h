// Test data for kernels of other libraries: operands of a convolution whose results are all known in advance.
//
// Each element of an operand is a product of one small whole number per index: x[n, c, h, w] = a[n] * b[c] * p[h] * q[w]. The
// result then has the same form, and its factors are plain sums over one index each, in double. This is fast enough to check
// every result, so a single wrong block is found. The sums are whole numbers that float32 represents exactly in any order of
// addition, so a correct kernel differs only by the rounding of its result. Pure; independent of devices.
//
//   WindowCheck check({.n = 2, .c = 64, .k = 64, .rows = {56, 56, 3, 1, 1, 1}, .columns = {56, 56, 3, 1, 1, 1}},
//   WindowOperand::y); check.fill(WindowOperand::x, x_elements, x, 0, check.rows(WindowOperand::x, x_elements));  // and w
//   ... the kernel ...
//   const WindowDifference found = check.compare(y_elements, y, 0, check.rows(WindowOperand::y, y_elements), {});
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/detail/tensor.h"

namespace millrace {

// y[n, g, k, oh, ow] = sum of x[n, g, c, oh * stride + i * dilation - before, ...] * w[g, k, c, i, j] over c, i and j. A fully
// connected layer is one window; a transposed convolution is the gradient by x.
struct WindowShape {
  struct Side {
    std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, before = 0;  // before: rows of padding
    friend bool operator==(const Side&, const Side&) = default;
  };
  std::int64_t n = 1, groups = 1, c = 1, k = 1;  // channels of one group
  Side rows = {}, columns = {};
};

// y: the result of x and w. x: the gradient by x, from y and w. w: the gradient by w, from x and y.
enum class WindowOperand : std::uint8_t { x, w, y };

// Locates the elements of an operand: the sum of one offset per index, in elements. Axes of x and y are (n, channels of all
// groups, h, w), those of w (group, k, c, i, j). An axis may be longer than the operand: elements after the last are padding,
// which is filled with zeros and must stay zero.
struct ElementOffsets {
  DataType type = DataType::f32;  // or bf16
  std::vector<std::vector<std::int64_t>> axes;
};

struct WindowDifference {
  std::int64_t wrong = 0;  // elements
  std::int64_t of = 0;
  std::string first;  // the first wrong one: "element (0, 5, 7, 223) is 1e+33 and should be -12"
};

struct WindowRounding {
  bool relu = false;                         // applied to the result, which is y
  const std::vector<float>* bias = nullptr;  // added to the result, which is y; by channel
  double of_term = 0x1p-21;                  // relative tolerance per term, in addition to the rounding of the result
  double times = 1;                          // for a result w: how often the kernel had each sample
  bool narrow = false;                       // the result was rounded to bf16 before it became float32
};

class WindowCheck {
 public:
  // `draw`: selects the numbers.
  WindowCheck(const WindowShape& shape, WindowOperand result, std::uint64_t draw = 0);

  // Operands are processed row by row, so that several threads can share the work.
  std::int64_t rows(const ElementOffsets& elements) const;
  void fill(WindowOperand operand, const ElementOffsets& elements, void* data, std::int64_t begin, std::int64_t end) const;
  WindowDifference compare(const ElementOffsets& elements, const void* data, std::int64_t begin, std::int64_t end,
                           const WindowRounding& rounding) const;
  // Compares the gradient by the bias: the sum of y over all axes but channels.
  WindowDifference compare_bias(const float* data, double of_term) const;

 private:
  // One operand's factors for each of its indices: (n, group, channel, row, column); w: (group, k, c, row, column).
  using Factors = std::array<std::vector<double>, 5>;
  struct Operand {
    Factors value, magnitude;  // equal except for signs, and except in the result
  };

  void draw_factors(std::uint64_t draw);
  void agree_in_sign();
  double terms() const;
  void contract(Factors Operand::*of);  // computes the result's factors from the other two operands
  std::vector<std::vector<double>> by_axis(WindowOperand operand, Factors Operand::*of) const;

  const WindowShape shape_;
  const WindowOperand result_;
  std::array<Operand, 3> operands_;  // by WindowOperand
};

// Biases to check with: whole numbers from -3 to 3.
std::vector<float> window_biases(std::size_t channels);

// Merges the results of several threads.
void merge(WindowDifference& into, WindowDifference&& other);

}  // namespace millrace
