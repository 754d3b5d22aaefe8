// Makes matrices orthogonal (kernels/orthogonalise.h) with the machine's library products, as for linear layers.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "machine.h"
#include "millrace/kernels/orthogonalise.h"

namespace millrace::cuda {

class Orthogonaliser {
 public:
  // `options` must outlive this object. Products use bf16 or tf32 if the network does.
  explicit Orthogonaliser(const CompileOptions& options) : options_(options) {}

  void add(Machine& machine, const MatrixShape& shape);  // before start()
  std::size_t bytes() const;
  void start(Machine& machine);

  void run(Queue& queue, float* matrix, const Squares* squares, const MatrixShape& shape, const NewtonSchulz& how) const;

 private:
  struct Products {
    std::shared_ptr<const LibraryPlan> gram, square, apply;
  };
  DataType type() const { return options_.precision == Precision::bf16 ? DataType::bf16 : DataType::f32; }
  template <class T>
  void run_as(Queue& queue, float* matrix, const Squares* squares, const MatrixShape& shape, const NewtonSchulz& how) const;

  const CompileOptions& options_;
  std::map<std::pair<std::int64_t, std::int64_t>, Products> products_;  // by height and width
  std::size_t matrix_bytes_ = 0, library_bytes_ = 0;                    // for the largest matrix
  DeviceMemory memory_, workspace_;
};

}  // namespace millrace::cuda
