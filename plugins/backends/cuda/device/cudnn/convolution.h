// Convolutions and their gradients by cuDNN.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "device_plan.h"
#include "engines.h"
#include "handles.h"
#include "plan_options.h"
#include "plan_search.h"

namespace millrace::cuda {

// An engine, and what it leaves to elements of our own.
struct ConvolutionChoice {
  Epilogue epilogue = Epilogue::none;
  EnginePlan engine;
};

// Tries a choice: how many seconds it takes, where that is asked for. Nothing: it cannot be used, and `why_not` says why.
using TryChoice =
    std::function<std::optional<double>(const std::shared_ptr<const ConvolutionChoice>& choice, std::string& why_not)>;

// The first engine for a shape that works, or with Tune::measure the fastest of several: among those that compute bias and
// activation too, or, where none of these works in time, among those of the bare convolution. Throws Error(usage) when none
// works at all.
std::shared_ptr<const ConvolutionChoice> choose_engine(const CudnnApi& api, const ConvolutionShape& shape,
                                                       const CudnnTarget& target, const PlanOptions& options,
                                                       const TryChoice& attempt, const Clock& clock = steady_seconds);

// A choice as text, "fused 62 0=1 12=3", and back for the same shape: held to the options as every choice is. Nothing when it
// cannot be used here.
std::string save(const ConvolutionChoice& choice);
std::optional<ConvolutionChoice> restore_choice(const CudnnApi& api, const ConvolutionShape& shape, const CudnnTarget& target,
                                                const PlanOptions& options, const std::string& text);

// The same with the engine's code where it was compiled on the spot, so that it need not be again: a line more, of some size.
std::string save_compiled(const ConvolutionChoice& choice);
std::optional<ConvolutionChoice> restore_compiled(const CudnnApi& api, const ConvolutionShape& shape, const CudnnTarget& target,
                                                  const PlanOptions& options, const std::string& text);

// The workspace holds the engine's, and after it a bf16 weight gradient before it becomes float32: `w` must have room for whole
// packs of eight. May be run on several queues at once, with a workspace each: cuDNN's execution plans are not safe to share
// among threads for all engines, so one thread at a time submits.
class ConvolutionPlan final : public DevicePlan {
 public:
  ConvolutionPlan(std::shared_ptr<CudnnHandles> handles, const ConvolutionShape& shape,
                  std::shared_ptr<const ConvolutionChoice> choice);

  std::size_t workspace() const override;
  std::string engine() const override;
  std::string identity() const override { return "cuDNN " + save(*choice_); }
  void execute(const LibraryRun& run, CudaStream& stream, Queue& queue) const override;

 private:
  void run_engine(const LibraryRun& run, CudaStream& stream) const;  // the engine alone
  bool converts() const;                                             // a bf16 weight gradient
  bool finishes() const;                                             // bias and activation, after the engine
  Bf16* narrow(const LibraryRun& run) const;

  const std::shared_ptr<CudnnHandles> handles_;
  const ConvolutionShape shape_;
  const std::string about_;
  const std::shared_ptr<const ConvolutionChoice> choice_;
  const std::size_t narrow_at_;  // in the workspace
  const std::int64_t filter_elements_, packs_;
  mutable std::mutex mutex_;  // of the engine
};

}  // namespace millrace::cuda
