// Convolutions and their gradients by cuDNN.
#pragma once

#include <memory>
#include <mutex>

#include "cudnn_engines.h"
#include "cudnn_handles.h"
#include "device_plan.h"
#include "plan_options.h"

namespace millrace::cuda {

// An engine, and what it leaves to elements of our own.
struct ConvolutionChoice {
  Epilogue epilogue = Epilogue::none;
  EnginePlan engine;
};

// Engines for a shape, best first: those that compute bias and activation too, or, where there are none, those of the bare
// convolution. At most `most`. Throws Error(usage) when there is no engine at all.
std::vector<ConvolutionChoice> choose_engines(const CudnnApi& api, const ConvolutionShape& shape, const CudnnTarget& target,
                                              const PlanOptions& options, std::size_t most);

// A choice as text, "fused 62 0=1 12=3", and back for the same shape: held to the options as every choice is. Nothing when it
// cannot be used here.
std::string save(const ConvolutionChoice& choice);
std::optional<ConvolutionChoice> restore_choice(const CudnnApi& api, const ConvolutionShape& shape, const CudnnTarget& target,
                                                const PlanOptions& options, const std::string& text);

// Likewise with the engine's code where it was compiled on the spot, so that it need not be again: a line more, of some size.
std::string save_compiled(const ConvolutionChoice& choice);
std::optional<ConvolutionChoice> restore_compiled(const CudnnApi& api, const ConvolutionShape& shape, const CudnnTarget& target,
                                                  const PlanOptions& options, const std::string& text);

// The workspace holds the engine's, and behind it a bf16 weight gradient before it becomes float32: `w` must have room for whole
// packs of eight. May be run on several queues at once, with a workspace each: cuDNN's execution plans are not safe to share
// among threads for all engines, so one thread at a time submits.
class ConvolutionPlan final : public DevicePlan {
 public:
  ConvolutionPlan(std::shared_ptr<CudnnHandles> handles, const ConvolutionShape& shape, ConvolutionChoice choice);

  std::size_t workspace() const override;
  std::string engine() const override;
  void execute(const LibraryRun& run, cudaStream_t stream, Queue& queue) const override;
  void run_engine(const LibraryRun& run, cudaStream_t stream) const;  // the engine alone
  const ConvolutionChoice& choice() const { return choice_; }

 private:
  bool converts() const;  // a bf16 weight gradient
  bool finishes() const;  // bias and activation, after the engine
  Bf16* narrow(const LibraryRun& run) const;

  const std::shared_ptr<CudnnHandles> handles_;
  const ConvolutionShape shape_;
  const std::string about_;
  const ConvolutionChoice choice_;
  const std::size_t narrow_at_;  // in the workspace
  const std::int64_t filter_elements_, packs_;
  mutable std::mutex mutex_;  // of the engine
};

// Times `choices` on the device and returns the fastest; the first where there is not the memory to try them.
std::size_t fastest_choice(const std::vector<std::shared_ptr<const ConvolutionPlan>>& plans, const ConvolutionShape& shape,
                           cudaStream_t stream);

}  // namespace millrace::cuda
