// Makes matrices orthogonal (millrace/kernels/orthogonalise.h) with oneDNN's products.
//
// All replicas must compute identical bits, but their teams may differ in size. So products are divided into blocks of rows that
// depend on the shape alone, and one thread computes each block.
#pragma once

#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "memory_region.h"
#include "millrace/backend/network.h"
#include "millrace/kernels/orthogonalise.h"
#include "primitive_checks.h"
#include "primitives.h"

namespace millrace::cpu {

class Orthogonaliser {
 public:
  // `type`: of the factors.
  explicit Orthogonaliser(DataType type) : type_(type) {}

  // Call before start(), on a thread with the team that will run.
  void add(const MatrixShape& shape, const PrimitiveChecks& checks);
  std::size_t bytes() const;
  void start();

  void run(float* matrix, const Squares* squares, const MatrixShape& shape, const NewtonSchulz& how);
  const dnnl::engine& engine() const { return engine_; }

 private:
  // A product of row-major matrices, `rows` of the left one at a time; the last block may have fewer.
  struct Product {
    struct Block {
      dnnl::primitive_desc_base desc;
      dnnl::primitive primitive;
      dnnl::memory::desc left, right, result;
    };
    std::int64_t rows = 0, inner = 0, columns = 0;
    Block whole = {}, rest = {};
  };
  struct Products {
    Product gram, square, apply;
  };
  Product make(std::int64_t rows, std::int64_t inner, std::int64_t columns, bool right_transposed, const PrimitiveChecks& checks);
  Product::Block make_block(std::int64_t rows, const Product& of, bool right_transposed, const PrimitiveChecks& checks);
  void multiply(const Product& product, const void* left, const void* right, void* result);
  void multiply_block(const Product& product, std::int64_t block, const void* left, const void* right, void* result);
  template <class T>
  void run_as(float* matrix, const Squares* squares, const MatrixShape& shape, const NewtonSchulz& how);

  const DataType type_;
  dnnl::engine engine_ = processor();
  std::map<std::pair<std::int64_t, std::int64_t>, Products> products_;  // by height and width
  std::size_t elements_ = 0;                                            // for the largest matrix and its intermediate results
  std::size_t scratch_bytes_ = 0;                                       // per thread
  int threads_ = 0;
  MemoryRegion memory_, scratch_;
};

}  // namespace millrace::cpu
