// Matrix products by cuBLASLt.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "api.h"
#include "cuda_queue.h"
#include "plan_options.h"
#include "plan_search.h"
#include "product.h"

namespace millrace::cuda {

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
