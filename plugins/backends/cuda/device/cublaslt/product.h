// A matrix product of ours in cuBLASLt's words: pure arithmetic.
#pragma once

#include "runtime/machine.h"

namespace millrace::cuda {

// A matrix as BLAS sees it: column after column, without gaps, so the leading extent is `rows`.
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

// Our matrices lie row after row. Read by columns, the same memory is the transposed matrix: the forward product y = x * w^T
// becomes y^T = w * x^T, and so on, which makes `out` the rows of what forward writes, along which cuBLASLt adds a bias.
Product product_of(const LinearShape& shape);

// What cuBLASLt does after the product; the rest is an element of our own.
struct ProductEpilogue {
  bool bias = false, relu = false;
  bool all = false;  // nothing is left to do
};

// A bias has the type of the result there, and ours is float32. GELU is left alone: cuBLASLt's is the approximation by tanh. A
// bias that has to wait takes the activation with it.
ProductEpilogue epilogue_of(const LinearShape& shape);

// "product of 256 x 512 (bf16) by 1000 x 512 to f32, ...": for messages, and unique: plans are kept by it.
std::string text_of(const LinearShape& shape);

}  // namespace millrace::cuda
