// Matrix products by cuBLASLt.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "api.h"
#include "cuda_queue.h"
#include "plan_options.h"
#include "plan_search.h"
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

// One of cuBLASLt's descriptors, with the function that destroys it.
template <class T>
using CublasLtObject = std::unique_ptr<T, cublasStatus_t (*)(T*)>;

// The three matrices and their multiplication.
class ProductDescription {
 public:
  ProductDescription(const CublasLtApi& api, const LinearShape& shape, const ProductEpilogue& epilogue);

  // A product's description for one run, since it contains the bias. Null: any bias aligned like ours.
  CublasLtObject<cublasLtMatmulDescOpaque_t> product(const float* bias) const;
  cublasLtMatrixLayout_t a() const { return a_.get(); }
  cublasLtMatrixLayout_t b() const { return b_.get(); }
  cublasLtMatrixLayout_t d() const { return d_.get(); }  // also of c, which is not read

 private:
  const CublasLtApi& api_;
  const LinearShape shape_;
  const ProductEpilogue epilogue_;
  CublasLtObject<cublasLtMatrixLayoutOpaque_t> a_, b_, d_;
};

// Limits on the algorithms that cuBLASLt's heuristics may return.
CublasLtObject<cublasLtMatmulPreferenceOpaque_t> preference_of(const CublasLtApi& api, const LinearShape& shape,
                                                               const PlanOptions& options);

struct ProductChoice {
  ProductEpilogue epilogue;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
};

// Best first, at most `most`; empty if there are none with this epilogue.
std::vector<ProductChoice> offered_algorithms(const CublasLtHandle& handle, const LinearShape& shape,
                                              const ProductEpilogue& epilogue, const PlanOptions& options, std::size_t most);

// Tries a choice, like that for convolutions (cudnn_convolution.h).
using TryProduct = std::function<std::optional<double>(const ProductChoice& choice, std::string& why_not)>;

// The first algorithm that works, or with Tune::measure the fastest of several, with as much of the epilogue as algorithms
// support. Throws Error(usage) if none works.
ProductChoice choose_algorithm(const CublasLtHandle& handle, const LinearShape& shape, const PlanOptions& options,
                               const TryProduct& attempt, const Clock& clock = steady_seconds);

// Encodes a choice as text, and decodes it for the same shape: empty if it is unusable here or exceeds the allowed workspace.
std::string save(const ProductChoice& choice);
std::optional<ProductChoice> restore_choice(const CublasLtHandle& handle, const LinearShape& shape, const PlanOptions& options,
                                            const std::string& text);
std::optional<ProductChoice> decode_choice(const LinearShape& shape, const std::string& text);  // without calling cuBLASLt

// May run on several queues at once, with one workspace each.
class LinearPlan final : public DevicePlan {
 public:
  LinearPlan(std::shared_ptr<const CublasLtHandle> handle, const LinearShape& shape, const ProductChoice& choice);

  std::size_t workspace() const override { return choice_.workspace; }
  std::string engine() const override;
  std::string identity() const override { return "cuBLASLt " + save(choice_); }
  void execute(const LibraryRun& run, CudaStream& stream, Queue& queue) const override;
  void run_algorithm(const LibraryRun& run, cudaStream_t stream) const;  // without the operations after it

 private:
  const std::shared_ptr<const CublasLtHandle> handle_;
  const LinearShape shape_;
  const std::string about_;
  const ProductChoice choice_;
  const Product product_;
  const ProductDescription description_;
};

}  // namespace millrace::cuda
