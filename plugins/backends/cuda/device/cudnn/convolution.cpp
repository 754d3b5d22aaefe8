#include "convolution.h"

#include <algorithm>
#include <array>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

using Kind = ConvolutionShape::Kind;

constexpr std::size_t kAlignment = 256;  // bytes, in the workspace

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool wants_epilogue(const ConvolutionShape& shape) {
  return shape.kind == Kind::forward && (shape.bias || shape.activation != Activation::none);
}

template <class T>
BiasActivate<T> finish_map(const ConvolutionShape& shape, const LibraryRun& run) {
  return {.y = static_cast<T*>(run.y),
          .bias = shape.bias ? run.bias : nullptr,
          .rows = shape.n * shape.out_h * shape.out_w,
          .row_packs = pitch_of(shape.k) / kPack,
          .kind = shape.activation};
}

EngineRules rules_of(const ConvolutionShape& shape, Epilogue epilogue, const PlanOptions& options) {
  return {.type = shape.type,
          .tf32 = shape.tf32,
          .deterministic = options.deterministic,
          .most_compiled = epilogue == Epilogue::fused && options.compiles ? kMaxCompiled : 0};
}

constexpr std::string_view kFused = "fused ", kBare = "bare ";

}  // namespace

std::shared_ptr<const ConvolutionChoice> choose_engine(const CudnnApi& api, const ConvolutionShape& shape,
                                                       const CudnnTarget& target, const PlanOptions& options,
                                                       const TryChoice& attempt, const Clock& clock) {
  using Choice = std::shared_ptr<const ConvolutionChoice>;
  const double deadline = clock() + options.seconds();
  std::string why_not, failed;  // why an engine was skipped, and why one that was tried failed, which is more informative
  const auto search_for = [&](Epilogue epilogue) -> Choice {
    const ConvolutionGraph graph(api, shape, epilogue, target);
    EngineSearch search(api, graph, target, rules_of(shape, epilogue, options), options.workspace_limit);
    const bool has_other_way = epilogue == Epilogue::fused || shape.accumulate;  // the bare convolution; an addition
    const SearchLimits limits{.most = options.most(), .deadline = deadline, .insists = !has_other_way};
    const auto found = search_plans(
        limits, clock, [&] { return search.next(); },
        [&](Descriptor config) -> std::optional<Timed<Choice>> {
          auto engine = search.accept(std::move(config));
          if (!engine) {
            why_not = search.why_not();
            return std::nullopt;
          }
          Choice choice = std::make_shared<const ConvolutionChoice>(epilogue, std::move(*engine));
          const auto seconds = attempt(choice, failed);
          if (!seconds) return std::nullopt;
          return Timed<Choice>{std::move(choice), *seconds};
        });
    if (why_not.empty()) why_not = search.why_not();
    return found ? found->plan : nullptr;
  };
  Choice choice;
  if (wants_epilogue(shape)) choice = search_for(Epilogue::fused);
  if (!choice) choice = search_for(Epilogue::none);
  if (choice) return choice;
  const std::string& why = failed.empty() ? why_not : failed;
  fail(ErrorKind::usage, "cuDNN {} has no engine for the {}{}{}", api.version(), text_of(shape), why.empty() ? "" : ": ", why);
}

std::string save(const ConvolutionChoice& choice) {
  return std::string(choice.epilogue == Epilogue::fused ? kFused : kBare) + choice.engine.choice;
}

std::optional<ConvolutionChoice> restore_choice(const CudnnApi& api, const ConvolutionShape& shape, const CudnnTarget& target,
                                                const PlanOptions& options, const std::string& text) {
  return restore_compiled(api, shape, target, options, text.substr(0, text.find('\n')));
}

std::string save_compiled(const ConvolutionChoice& choice) {
  const auto code = choice.engine.compiled ? write_compiled(choice.engine) : std::nullopt;
  return code ? save(choice) + '\n' + *code : save(choice);
}

std::optional<ConvolutionChoice> restore_compiled(const CudnnApi& api, const ConvolutionShape& shape, const CudnnTarget& target,
                                                  const PlanOptions& options, const std::string& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string line = text.substr(0, end);
  const bool fused = line.starts_with(kFused);
  if (!fused && !line.starts_with(kBare)) return std::nullopt;
  if (fused && !wants_epilogue(shape)) return std::nullopt;
  const Epilogue epilogue = fused ? Epilogue::fused : Epilogue::none;
  const ConvolutionGraph graph(api, shape, epilogue, target);
  EngineSearch search(api, graph, target, rules_of(shape, epilogue, options), options.workspace_limit);
  const std::string choice = line.substr((fused ? kFused : kBare).size());
  auto engine = end < text.size() ? search.take_compiled(choice, text.substr(end + 1)) : std::nullopt;
  if (!engine) engine = search.take(choice);
  if (!engine) return std::nullopt;
  return ConvolutionChoice{epilogue, std::move(*engine)};
}

ConvolutionPlan::ConvolutionPlan(std::shared_ptr<CudnnHandles> handles, const ConvolutionShape& shape,
                                 std::shared_ptr<const ConvolutionChoice> choice)
    : handles_(std::move(handles)),
      shape_(shape),
      about_(text_of(shape)),
      choice_(std::move(choice)),
      narrow_at_(aligned(choice_->engine.workspace)),
      filter_elements_(extents_of(shape).filter_elements),
      packs_((filter_elements_ + kPack - 1) / kPack) {}

bool ConvolutionPlan::converts() const { return shape_.kind == Kind::weight_gradient && shape_.type == DataType::bf16; }
bool ConvolutionPlan::finishes() const { return wants_epilogue(shape_) && choice_->epilogue == Epilogue::none; }

std::size_t ConvolutionPlan::workspace() const {
  return converts() ? narrow_at_ + static_cast<std::size_t>(packs_ * kPack) * sizeof(Bf16) : choice_->engine.workspace;
}

std::string ConvolutionPlan::engine() const {
  return choice_->engine.name + (choice_->epilogue == Epilogue::fused ? ", fused" : "");
}

Bf16* ConvolutionPlan::narrow(const LibraryRun& run) const {
  return reinterpret_cast<Bf16*>(static_cast<std::byte*>(run.workspace) + narrow_at_);
}

void ConvolutionPlan::run_engine(const LibraryRun& run, CudaStream& stream) const {
  const CudnnApi& api = handles_->api();
  constexpr std::array kIds{static_cast<std::int64_t>(Bound::x), static_cast<std::int64_t>(Bound::w),
                            static_cast<std::int64_t>(Bound::y), static_cast<std::int64_t>(Bound::bias)};
  const std::array<void*, 4> pointers{run.x, converts() ? narrow(run) : run.w, run.y, const_cast<float*>(run.bias)};
  const std::size_t count = shape_.bias && choice_->epilogue == Epilogue::fused ? 4 : 3;
  Descriptor bound(api, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  bound.set_all(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span(kIds).first(count))
      .set_all(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span(pointers).first(count))
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, run.workspace)
      .finalize();
  cudnnHandle_t const handle = handles_->of(stream);
  const std::lock_guard lock(mutex_);
  const cudnnStatus_t status = api.cudnnBackendExecute(handle, choice_->engine.plan.native(), bound.native());
  if (status != CUDNN_STATUS_SUCCESS) cudaGetLastError();  // otherwise the next launch's check would report it
  api.check(status, "cudnnBackendExecute", about_);
}

void ConvolutionPlan::execute(const LibraryRun& run, CudaStream& stream, Queue& queue) const {
  // The filters of grouped convolutions need not end with a pack: the rest becomes zero.
  if (converts() && filter_elements_ % kPack != 0) queue.zero(narrow(run) + (packs_ - 1) * kPack, kPack * sizeof(Bf16));
  run_engine(run, stream);
  if (converts()) queue.run(Bf16ToFloat{.from = narrow(run), .to = static_cast<float*>(run.w), .packs = packs_});
  if (!finishes()) return;
  shape_.type == DataType::bf16 ? queue.run(finish_map<Bf16>(shape_, run)) : queue.run(finish_map<float>(shape_, run));
}

}  // namespace millrace::cuda
