#include "orthogonaliser.h"

#include <omp.h>

#include <algorithm>
#include <exception>

#include "kernels/run_kernel.h"
#include "map_spec.h"
#include "primitives.h"

namespace millrace::cpu {

using dnnl::memory;

namespace {

constexpr std::int64_t kRows = 64;  // in a block

// oneDNN plans for the number of threads at the time a primitive is created.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() { omp_set_num_threads(before_); }

 private:
  const int before_;
};

std::int64_t blocks_of(std::int64_t rows) { return (rows + kRows - 1) / kRows; }

}  // namespace

Orthogonaliser::Product::Block Orthogonaliser::make_block(std::int64_t rows, const Product& of, bool right_transposed,
                                                          const PrimitiveChecks& checks) {
  const memory::dims by_rows = {of.columns, 1}, by_columns = {1, of.inner};
  Product::Block block;
  block.left = memory::desc({rows, of.inner}, to_dnnl(type_), memory::dims{of.inner, 1});
  block.right = memory::desc({of.inner, of.columns}, to_dnnl(type_), right_transposed ? by_columns : by_rows);
  block.result = memory::desc({rows, of.columns}, to_dnnl(type_), memory::dims{of.columns, 1});
  WindowSum sum{.layer = WindowSum::Layer::product};
  sum.source = block.left;
  sum.weights = block.right;
  sum.destination = block.result;
  block.desc = checks.first_right(engine_, sum);
  block.primitive = make_primitive(block.desc);
  scratch_bytes_ = std::max(scratch_bytes_, round_up(block.desc.scratchpad_desc().get_size(), kAlignment));
  return block;
}

Orthogonaliser::Product Orthogonaliser::make(std::int64_t rows, std::int64_t inner, std::int64_t columns, bool right_transposed,
                                             const PrimitiveChecks& checks) {
  Product product{.rows = rows, .inner = inner, .columns = columns};
  if (rows >= kRows) product.whole = make_block(kRows, product, right_transposed, checks);
  if (rows % kRows != 0) product.rest = make_block(rows % kRows, product, right_transposed, checks);
  return product;
}

void Orthogonaliser::add(const MatrixShape& shape, const PrimitiveChecks& checks) {
  const std::int64_t height = shape.height(), width = shape.width();
  threads_ = omp_get_max_threads();
  elements_ = std::max(elements_, MatrixMemory<float>::elements(shape));
  if (products_.contains({height, width})) return;
  const OneThread alone;
  products_[{height, width}] = {make(height, width, height, true, checks), make(height, height, height, false, checks),
                                make(height, height, width, false, checks)};
}

std::size_t Orthogonaliser::bytes() const {
  return round_up(elements_ * size_of(type_), kAlignment) + static_cast<std::size_t>(threads_) * scratch_bytes_;
}

void Orthogonaliser::start() {
  memory_ = MemoryRegion(round_up(elements_ * size_of(type_), kAlignment));
  scratch_ = MemoryRegion(static_cast<std::size_t>(threads_) * scratch_bytes_);
}

void Orthogonaliser::multiply_block(const Product& product, std::int64_t index, const void* left, const void* right,
                                    void* result) {
  const Product::Block& block = (index + 1) * kRows <= product.rows ? product.whole : product.rest;
  const auto row = static_cast<std::size_t>(index * kRows) * size_of(type_);
  const auto at = [&](const memory::desc& desc, const void* data, std::size_t bytes) {
    return memory(desc, engine_, static_cast<std::byte*>(const_cast<void*>(data)) + bytes);  // NOLINT: oneDNN has no const memory
  };
  dnnl::stream stream(engine_);
  std::byte* const scratch = scratch_.as<std::byte>() + static_cast<std::size_t>(omp_get_thread_num()) * scratch_bytes_;
  block.primitive.execute(stream, {{DNNL_ARG_SRC, at(block.left, left, row * static_cast<std::size_t>(product.inner))},
                                   {DNNL_ARG_WEIGHTS, at(block.right, right, 0)},
                                   {DNNL_ARG_DST, at(block.result, result, row * static_cast<std::size_t>(product.columns))},
                                   {DNNL_ARG_SCRATCHPAD, memory(block.desc.scratchpad_desc(), engine_, scratch)}});
}

void Orthogonaliser::multiply(const Product& product, const void* left, const void* right, void* result) {
  std::exception_ptr failed;
#pragma omp parallel for schedule(static) num_threads(threads_)
  for (std::int64_t block = 0; block < blocks_of(product.rows); ++block) {
    try {
      multiply_block(product, block, left, right, result);
    } catch (...) {
#pragma omp critical
      failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

template <class T>
void Orthogonaliser::run_as(float* matrix, const Squares* squares, const MatrixShape& shape, const NewtonSchulz& how) {
  struct Multiply {
    Orthogonaliser& own;
    const Products& products;
    void gram(const T* x, T* result) const { own.multiply(products.gram, x, x, result); }
    void square(const T* gram, T* result) const { own.multiply(products.square, gram, gram, result); }
    void apply(const T* left, const T* x, T* result) const { own.multiply(products.apply, left, x, result); }
  };
  const auto memory = MatrixMemory<T>::in(memory_.as<std::byte>(), shape);
  millrace::orthogonalise(matrix, squares, shape, how, memory, run_kernel,
                          Multiply{*this, products_.at({shape.height(), shape.width()})});
}

void Orthogonaliser::run(float* matrix, const Squares* squares, const MatrixShape& shape, const NewtonSchulz& how) {
  type_ == DataType::bf16 ? run_as<Bf16>(matrix, squares, shape, how) : run_as<float>(matrix, squares, shape, how);
}

}  // namespace millrace::cpu
