#include "orthogonaliser.h"

#include <algorithm>

namespace millrace::cuda {
namespace {

using Kind = ConvolutionShape::Kind;

// The three products as linear layers: x (rows, in), w (out, in), y (rows, out).
template <class T>
struct Multiply {
  Queue& queue;
  const LibraryPlan *gram_plan, *square_plan, *apply_plan;
  void* workspace;

  void gram(T* x, T* result) const { run({.plan = gram_plan, .x = x, .w = x, .y = result}); }
  void square(T* gram, T* result) const { run({.plan = square_plan, .x = gram, .w = gram, .y = result}); }
  void apply(T* square, T* x, T* result) const { run({.plan = apply_plan, .x = result, .w = x, .y = square}); }

 private:
  void run(LibraryRun product) const {
    product.workspace = workspace;
    queue.run(product);
  }
};

}  // namespace

void Orthogonaliser::add(Machine& machine, const MatrixShape& shape) {
  const std::int64_t height = shape.height(), width = shape.width();
  if (products_.contains({height, width})) return;
  const auto plan = [&](Kind kind, std::int64_t in) {
    LinearShape product;
    product.kind = kind;
    product.type = product.result = type();
    product.rows = product.out = height;
    product.in = in;
    product.tf32 = options_.precision == Precision::tf32;
    // If replicas chose by timing, they would compute different bits and diverge.
    std::shared_ptr<const LibraryPlan> made =
        machine.plan(product, {.tune = Tune::heuristic, .deterministic = true, .saved = {}});
    library_bytes_ = std::max(library_bytes_, made->workspace());
    return made;
  };
  products_[{height, width}] = {plan(Kind::forward, width), plan(Kind::forward, height), plan(Kind::data_gradient, width)};
  matrix_bytes_ = std::max(matrix_bytes_, MatrixMemory<float>::elements(shape) * size_of(type()));
}

std::size_t Orthogonaliser::bytes() const { return matrix_bytes_ + library_bytes_; }

void Orthogonaliser::start(Machine& machine) {
  memory_ = DeviceMemory(machine, matrix_bytes_, "matrices of updates");
  workspace_ = DeviceMemory(machine, library_bytes_, "workspace of updates");
}

template <class T>
void Orthogonaliser::run_as(Queue& queue, float* matrix, const Squares* squares, const MatrixShape& shape,
                            const NewtonSchulz& how) const {
  const Products& products = products_.at({shape.height(), shape.width()});
  const Multiply<T> multiply{queue, products.gram.get(), products.square.get(), products.apply.get(), workspace_.data()};
  const auto run = [&](const Kernel& kernel, const void* element) { queue.run(kernel, element); };
  orthogonalise(matrix, squares, shape, how, MatrixMemory<T>::in(memory_.data(), shape), run, multiply);
}

void Orthogonaliser::run(Queue& queue, float* matrix, const Squares* squares, const MatrixShape& shape,
                         const NewtonSchulz& how) const {
  type() == DataType::bf16 ? run_as<Bf16>(queue, matrix, squares, shape, how) : run_as<float>(queue, matrix, squares, shape, how);
}

}  // namespace millrace::cuda
