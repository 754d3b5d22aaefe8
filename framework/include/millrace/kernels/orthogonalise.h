// Makes matrices nearly orthogonal, for optimizers of scope `matrix`: the part that all backends share. Backends supply memory
// and matrix products.
//
// Rows and columns may be permuted and padded with zeros: the result is permuted and padded likewise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "millrace/kernels/host_element.h"
#include "millrace/kernels/matrix_elements.h"

namespace millrace {

// X = D / (|D| + epsilon), transposed if D has more rows than columns; then `steps` times
//   A = X X^T;  X = (a I + b A + c A A) X
// With these coefficients five steps bring most singular values between 0.7 and 1.2 (Keller Jordan,
// kellerjordan.github.io/posts/muon).
struct NewtonSchulz {
  int steps = 5;
  float a = 3.4445F, b = -4.7750F, c = 2.0315F;
  float epsilon = 1e-7F;
};

// A matrix of directions in memory, with contiguous rows, and the X made from it, whose extents are multiples of whole packs.
struct MatrixShape {
  std::int64_t rows = 0, columns = 0;

  bool transposed() const { return rows > columns; }
  std::int64_t height() const { return whole_packs(std::min(rows, columns)); }
  std::int64_t width() const { return whole_packs(std::max(rows, columns)); }

 private:
  static std::int64_t whole_packs(std::int64_t extent) { return (extent + kUpdatePack - 1) / kUpdatePack * kUpdatePack; }
};

// ---- The steps ----

// Workspace, aligned to 32 bytes.
template <class T>
struct MatrixMemory {
  T *x = nullptr, *next = nullptr;       // (height, width)
  T *gram = nullptr, *square = nullptr;  // (height, height)

  static std::size_t elements(const MatrixShape& shape) {
    return static_cast<std::size_t>(2 * shape.height() * (shape.height() + shape.width()));
  }
  static MatrixMemory in(void* memory, const MatrixShape& shape) {
    T* const x = static_cast<T*>(memory);
    T* const next = x + shape.height() * shape.width();
    T* const gram = next + shape.height() * shape.width();
    return {x, next, gram, gram + shape.height() * shape.height()};
  }
};

// Makes `matrix` (rows, columns) orthogonal in place. `run(kernel, element)` runs an element; `products` multiplies:
//   products.gram(x, gram)             gram = x x^T
//   products.square(gram, square)      square = gram gram, symmetric
//   products.apply(square, x, next)    next = square x
template <class T, class Run, class Products>
void orthogonalise(float* matrix, const Squares* squares, const MatrixShape& shape, const NewtonSchulz& how,
                   MatrixMemory<T> memory, const Run& run, const Products& products) {
  const std::int64_t height = shape.height(), width = shape.width();
  const LoadMatrix<T> load{matrix, squares, memory.x, shape.rows, shape.columns, height, width, how.epsilon};
  run(each_kernel<LoadMatrix<T>>, &load);
  for (int step = 0; step < how.steps; ++step) {
    products.gram(memory.x, memory.gram);
    products.square(memory.gram, memory.square);
    const MatrixPolynomial<T> polynomial{memory.gram, memory.square, height, how.a, how.b, how.c};
    run(each_kernel<MatrixPolynomial<T>>, &polynomial);
    products.apply(memory.square, memory.x, memory.next);
    std::swap(memory.x, memory.next);
  }
  const StoreMatrix<T> store{memory.x, matrix, shape.rows, shape.columns, height, width};
  run(each_kernel<StoreMatrix<T>>, &store);
}

}  // namespace millrace
