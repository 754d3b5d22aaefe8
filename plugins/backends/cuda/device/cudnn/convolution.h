// Convolutions and their gradients by cuDNN.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "cuda_queue.h"
#include "engines.h"
#include "handles.h"
#include "plan_options.h"
#include "plan_search.h"

namespace millrace::cuda {

// An engine, and the remaining work for our own elements.
struct ConvolutionChoice {
  Epilogue epilogue = Epilogue::none;
  EnginePlan engine;
};

// Tries a choice: returns the seconds it takes, if requested. Empty if it is unusable; then `why_not` holds the reason.
using TryChoice =
    std::function<std::optional<double>(const std::shared_ptr<const ConvolutionChoice>& choice, std::string& why_not)>;

// The first engine for a shape that works, or with Tune::measure the fastest of several: among those that fuse bias and
// activation, or, if none of these works in time, among those of the bare convolution. Throws Error(usage) if none works at all.
std::shared_ptr<const ConvolutionChoice> choose_engine(const CudnnApi& api, const ConvolutionShape& shape,
                                                       const CudnnTarget& target, const PlanOptions& options,
                                                       const TryChoice& attempt, const Clock& clock = steady_seconds);

// Encodes a choice as text, "fused 62 0=1 12=3", and decodes it for the same shape, subject to the same options. Empty if it is
// unusable here.
std::string save(const ConvolutionChoice& choice);
std::optional<ConvolutionChoice> restore_choice(const CudnnApi& api, const ConvolutionShape& shape, const CudnnTarget& target,
                                                const PlanOptions& options, const std::string& text);

// The same with the engine's code if it was compiled at run time, to avoid recompiling: one additional long line.
std::string save_compiled(const ConvolutionChoice& choice);
std::optional<ConvolutionChoice> restore_compiled(const CudnnApi& api, const ConvolutionShape& shape, const CudnnTarget& target,
                                                  const PlanOptions& options, const std::string& text);

// The workspace holds the engine's, then a bf16 weight gradient before its conversion to float32: `w` must have room for whole
// packs of eight. May run on several queues at once, with one workspace each: cuDNN's execution plans are not thread-safe for all
// engines, so one thread at a time submits.
class ConvolutionPlan final : public DevicePlan {
 public:
  ConvolutionPlan(std::shared_ptr<CudnnHandles> handles, const ConvolutionShape& shape,
                  std::shared_ptr<const ConvolutionChoice> choice);

  std::size_t workspace() const override;
  std::string engine() const override;
  std::string identity() const override { return "cuDNN " + save(*choice_); }
  void execute(const LibraryRun& run, CudaStream& stream, Queue& queue) const override;

 private:
  void run_engine(const LibraryRun& run, CudaStream& stream) const;  // only the engine
  bool converts() const;                                             // a bf16 weight gradient
  bool finishes() const;                                             // bias and activation after the engine
  Bf16* narrow(const LibraryRun& run) const;

  const std::shared_ptr<CudnnHandles> handles_;
  const ConvolutionShape shape_;
  const std::string about_;
  const std::shared_ptr<const ConvolutionChoice> choice_;
  const std::size_t narrow_at_;  // offset in the workspace
  const std::int64_t filter_elements_, packs_;
  mutable std::mutex mutex_;  // guards the engine
};

}  // namespace millrace::cuda
