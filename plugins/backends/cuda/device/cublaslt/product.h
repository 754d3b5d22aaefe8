// Expresses our matrix products in cuBLASLt's terms: pure arithmetic.
#pragma once

#include "runtime/machine.h"

namespace millrace::cuda {

// A matrix in BLAS's order: column by column, without gaps, so the leading dimension is `rows`.
struct ProductOperand {
  enum class Of : std::uint8_t { x, w, y };  // which pointer of a run
  Of of = Of::x;
  DataType type = DataType::f32;
  std::int64_t rows = 0, columns = 0;
  bool transposed = false;
};

// d = op(a) * op(b).
struct Product {
  ProductOperand a, b, d;
};

// Our matrices are row-major. Read as column-major, the same memory is the transposed matrix: the forward product y = x * w^T
// becomes y^T = w * x^T, and so on, which makes `out` the rows of forward's result, along which cuBLASLt adds a bias.
Product product_of(const LinearShape& shape);

// What cuBLASLt computes after the product; our own element does the rest.
struct ProductEpilogue {
  bool bias = false, relu = false;
  bool all = false;  // nothing is left to do
};

// cuBLASLt's bias has the result's type, ours is float32. GELU is not used: cuBLASLt's is the approximation by tanh. If the bias
// cannot be fused, neither can the activation.
ProductEpilogue epilogue_of(const LinearShape& shape);

// "product of 256 x 512 (bf16) by 1000 x 512 to f32, ...": for messages, and unique as the key of a plan.
std::string text_of(const LinearShape& shape);

}  // namespace millrace::cuda
