#include "linear.h"

#include <algorithm>
#include <charconv>

#include "millrace/error.h"
#include "shape_names.h"

namespace millrace::cuda {
namespace {

using Kind = ConvolutionShape::Kind;
using Of = ProductOperand::Of;

constexpr std::uint32_t kAlignment = 16;  // bytes; for matrices and biases

cudaDataType_t data_type(DataType type) {
  if (type == DataType::f32) return CUDA_R_32F;
  if (type == DataType::bf16) return CUDA_R_16BF;
  fail(ErrorKind::usage, "a matrix product of {} is not known on this backend; f32 and bf16 are", to_string(type));
}

// CUBLAS_COMPUTE_32F keeps float32 inputs exact; TF32 must be requested.
cublasComputeType_t compute_type(const LinearShape& shape) {
  return shape.type == DataType::f32 && shape.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasLtEpilogue_t native(const ProductEpilogue& epilogue) {
  if (epilogue.bias) return epilogue.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return epilogue.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

CublasLtObject<cublasLtMatrixLayoutOpaque_t> layout(const CublasLtApi& api, const ProductOperand& operand) {
  cublasLtMatrixLayout_t made = nullptr;
  api.check(api.cublasLtMatrixLayoutCreate(&made, data_type(operand.type), static_cast<std::uint64_t>(operand.rows),
                                           static_cast<std::uint64_t>(operand.columns), operand.rows),
            "cublasLtMatrixLayoutCreate");
  return {made, api.cublasLtMatrixLayoutDestroy};
}

template <class T>
void set(const CublasLtApi& api, cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t name, const T& value) {
  api.check(api.cublasLtMatmulDescSetAttribute(description, name, &value, sizeof value),
            fmt::format("cublasLtMatmulDescSetAttribute({})", static_cast<int>(name)));
}

template <class T>
void set(const CublasLtApi& api, cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,
         const T& value) {
  api.check(api.cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof value),
            fmt::format("cublasLtMatmulPreferenceSetAttribute({})", static_cast<int>(name)));
}

template <class T>
BiasActivate<T> finish_rows(const LinearShape& shape, const LibraryRun& run) {
  return {.y = static_cast<T*>(run.y),
          .bias = shape.bias ? run.bias : nullptr,
          .rows = shape.rows,
          .row_packs = shape.out / kPack,
          .kind = shape.activation};
}

}  // namespace

// ---- Descriptions ----

ProductDescription::ProductDescription(const CublasLtApi& api, const LinearShape& shape, const ProductEpilogue& epilogue)
    : api_(api),
      shape_(shape),
      epilogue_(epilogue),
      a_(layout(api, product_of(shape).a)),
      b_(layout(api, product_of(shape).b)),
      d_(layout(api, product_of(shape).d)) {}

CublasLtObject<cublasLtMatmulDescOpaque_t> ProductDescription::product(const float* bias) const {
  cublasLtMatmulDesc_t made = nullptr;
  api_.check(api_.cublasLtMatmulDescCreate(&made, compute_type(shape_), CUDA_R_32F), "cublasLtMatmulDescCreate", text_of(shape_));
  CublasLtObject<cublasLtMatmulDescOpaque_t> result(made, api_.cublasLtMatmulDescDestroy);
  const Product product = product_of(shape_);
  set(api_, made, CUBLASLT_MATMUL_DESC_TRANSA, product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(api_, made, CUBLASLT_MATMUL_DESC_TRANSB, product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(api_, made, CUBLASLT_MATMUL_DESC_EPILOGUE, native(epilogue_));
  if (!epilogue_.bias) return result;
  // Heuristics only use the address's alignment.
  const void* const address = bias != nullptr ? bias : reinterpret_cast<const void*>(std::uintptr_t{kAlignment});
  set(api_, made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, address);
  set(api_, made, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
  return result;
}

CublasLtObject<cublasLtMatmulPreferenceOpaque_t> preference_of(const CublasLtApi& api, const LinearShape& shape,
                                                               const PlanOptions& options) {
  cublasLtMatmulPreference_t made = nullptr;
  api.check(api.cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  CublasLtObject<cublasLtMatmulPreferenceOpaque_t> result(made, api.cublasLtMatmulPreferenceDestroy);
  set(api, made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{options.workspace_limit});
  // Parts of a split sum are reduced in float32 in the workspace, in a fixed order; reducing them in the result may round to
  // bf16, so it is only allowed for float32 results that need not be reproducible.
  const bool in_place = product_of(shape).d.type == DataType::f32 && !options.deterministic;
  const std::uint32_t schemes =
      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | (in_place ? std::uint32_t{CUBLASLT_REDUCTION_SCHEME_INPLACE} : std::uint32_t{0});
  set(api, made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(api, made, name, kAlignment);
  }
  return result;
}

// ---- Choices ----

std::vector<ProductChoice> offered_algorithms(const CublasLtHandle& handle, const LinearShape& shape,
                                              const ProductEpilogue& epilogue, const PlanOptions& options, std::size_t most) {
  const CublasLtApi& api = handle.api();
  const ProductDescription description(api, shape, epilogue);
  const auto product = description.product(nullptr);
  const auto preference = preference_of(api, shape, options);
  std::vector<cublasLtMatmulHeuristicResult_t> results(most);
  int found = 0;
  const cublasStatus_t status =
      api.cublasLtMatmulAlgoGetHeuristic(handle.native(), product.get(), description.a(), description.b(), description.d(),
                                         description.d(), preference.get(), static_cast<int>(most), results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  api.check(status, "cublasLtMatmulAlgoGetHeuristic", text_of(shape));
  std::vector<ProductChoice> choices;
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) choices.push_back({epilogue, result.algo, result.workspaceSize});
  }
  return choices;
}

ProductChoice choose_algorithm(const CublasLtHandle& handle, const LinearShape& shape, const PlanOptions& options,
                               const TryProduct& attempt, const Clock& clock) {
  const double deadline = clock() + options.seconds();
  std::string why_not;
  const auto search_for = [&](const ProductEpilogue& epilogue, bool last) {
    const auto offered = offered_algorithms(handle, shape, epilogue, options, kMaxMeasured);
    std::size_t at = 0;
    const SearchLimits limits{.most = options.most(), .deadline = deadline, .insists = last};
    return search_plans(
        limits, clock, [&] { return at < offered.size() ? std::optional(offered[at++]) : std::nullopt; },
        [&](const ProductChoice& choice) -> std::optional<Timed<ProductChoice>> {
          const auto seconds = attempt(choice, why_not);
          return seconds ? std::optional(Timed<ProductChoice>{choice, *seconds}) : std::nullopt;
        });
  };
  const ProductEpilogue epilogue = epilogue_of(shape);
  const bool has_more = epilogue.bias || epilogue.relu;
  auto found = search_for(epilogue, !has_more);
  if (!found && has_more) found = search_for(ProductEpilogue{}, true);
  if (found) return found->plan;
  fail(ErrorKind::usage, "cuBLASLt {} has no algorithm for the {}{}{}", handle.api().version(), text_of(shape),
       why_not.empty() ? "" : ": ", why_not);
}

std::string save(const ProductChoice& choice) {
  std::string text = choice.epilogue.all ? "whole" : "bare";
  for (const std::uint64_t word : choice.algorithm.data) text += fmt::format(" {:x}", word);
  return text;
}

std::optional<ProductChoice> decode_choice(const LinearShape& shape, const std::string& text) {
  ProductChoice choice;
  std::size_t at = std::min(text.find(' '), text.size());
  const std::string epilogue = text.substr(0, at);
  if (epilogue != "whole" && epilogue != "bare") return std::nullopt;
  if (epilogue == "whole") choice.epilogue = epilogue_of(shape);
  if (choice.epilogue.all != (epilogue == "whole")) return std::nullopt;
  for (std::uint64_t& word : choice.algorithm.data) {
    if (at == text.size()) return std::nullopt;
    const std::size_t end = std::min(text.find(' ', at + 1), text.size());
    const auto result = std::from_chars(text.data() + at + 1, text.data() + end, word, 16);
    if (result.ec != std::errc() || result.ptr != text.data() + end) return std::nullopt;
    at = end;
  }
  return at == text.size() ? std::optional(choice) : std::nullopt;
}

std::optional<ProductChoice> restore_choice(const CublasLtHandle& handle, const LinearShape& shape, const PlanOptions& options,
                                            const std::string& text) {
  auto choice = decode_choice(shape, text);
  if (!choice) return std::nullopt;
  const CublasLtApi& api = handle.api();
  const ProductDescription description(api, shape, choice->epilogue);
  const auto product = description.product(nullptr);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = api.cublasLtMatmulAlgoCheck(handle.native(), product.get(), description.a(), description.b(),
                                                            description.d(), description.d(), &choice->algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  if (result.workspaceSize > options.workspace_limit) return std::nullopt;
  choice->workspace = result.workspaceSize;
  return choice;
}

// ---- Plans ----

LinearPlan::LinearPlan(std::shared_ptr<const CublasLtHandle> handle, const LinearShape& shape, const ProductChoice& choice)
    : handle_(std::move(handle)),
      shape_(shape),
      about_(text_of(shape)),
      choice_(choice),
      product_(product_of(shape)),
      description_(handle_->api(), shape, choice.epilogue) {}

std::string LinearPlan::engine() const {
  const CublasLtApi& api = handle_->api();
  std::int32_t number = -1;
  std::size_t written = 0;
  api.cublasLtMatmulAlgoConfigGetAttribute(&choice_.algorithm, CUBLASLT_ALGO_CONFIG_ID, &number, sizeof number, &written);
  return fmt::format("cuBLASLt algorithm {}{}", number, choice_.epilogue.bias || choice_.epilogue.relu ? ", fused" : "");
}

void LinearPlan::run_algorithm(const LibraryRun& run, cudaStream_t stream) const {
  const CublasLtApi& api = handle_->api();
  const auto pointer = [&](const ProductOperand& operand) {
    switch (operand.of) {
      case ProductOperand::Of::x: return run.x;
      case ProductOperand::Of::w: return run.w;
      case ProductOperand::Of::y: return run.y;
    }
    return run.y;
  };
  const auto product = description_.product(run.bias);
  const float one = 1, zero = 0;
  void* const d = pointer(product_.d);
  const cublasStatus_t status = api.cublasLtMatmul(
      handle_->native(), product.get(), &one, pointer(product_.a), description_.a(), pointer(product_.b), description_.b(), &zero,
      d, description_.d(), d, description_.d(), &choice_.algorithm, run.workspace, choice_.workspace, stream);
  if (status != CUBLAS_STATUS_SUCCESS) cudaGetLastError();  // otherwise the next launch's check would report it
  api.check(status, "cublasLtMatmul", about_);
}

void LinearPlan::execute(const LibraryRun& run, CudaStream& stream, Queue& queue) const {
  run_algorithm(run, stream.native());
  const bool finished =
      choice_.epilogue.all || shape_.kind != Kind::forward || (!shape_.bias && shape_.activation == Activation::none);
  if (finished) return;
  shape_.result == DataType::bf16 ? queue.run(finish_rows<Bf16>(shape_, run)) : queue.run(finish_rows<float>(shape_, run));
}

Product product_of(const LinearShape& s) {
  const ProductOperand x{Of::x, s.type, s.in, s.rows};   // x^T
  const ProductOperand w{Of::w, s.type, s.in, s.out};    // w^T
  const ProductOperand y{Of::y, s.type, s.out, s.rows};  // y^T
  const auto transposed = [](ProductOperand operand) {
    operand.transposed = true;
    return operand;
  };
  Product product;
  switch (s.kind) {
    case Kind::forward:  // y^T = w * x^T
      product = {transposed(w), x, y};
      product.d.type = s.result;
      break;
    case Kind::data_gradient:  // dx^T = w^T * dy^T
      product = {w, y, x};
      break;
    case Kind::weight_gradient:  // dw^T = x^T * dy
      product = {x, transposed(y), w};
      product.d.type = DataType::f32;
      break;
  }
  return product;
}

ProductEpilogue epilogue_of(const LinearShape& shape) {
  ProductEpilogue epilogue;
  if (shape.kind == Kind::forward) {
    const bool together = (!shape.bias || shape.result == DataType::f32) && shape.activation != Activation::gelu;
    epilogue.bias = together && shape.bias;
    epilogue.relu = together && shape.activation == Activation::relu;
    epilogue.all = together;
  } else {
    epilogue.all = true;
  }
  return epilogue;
}

std::string text_of(const LinearShape& s) {
  const bool forward = s.kind == Kind::forward;
  return fmt::format("{} of {} x {} ({}{}) by {} x {}{}{}{}", name_of(s.kind, "product"), s.rows, s.in, to_string(s.type),
                     s.tf32 && s.type == DataType::f32 ? " as tf32" : "", s.out, s.in,
                     forward ? fmt::format(" to {}", to_string(s.result)) : "", forward && s.bias ? ", bias" : "",
                     forward ? suffix_of(s.activation) : "");
}

}  // namespace millrace::cuda
