// A network compiled for one replica: executables for training, phase by phase, for inference and for gradients of scores, and
// the memory that they share, since no two of them run at the same time.
//
// Threading: only on the replica's thread, except arena_bytes(), from any thread after compile().
#pragma once

#include <deque>
#include <vector>

#include "executable.h"
#include "memory_region.h"
#include "millrace/backend/executables.h"
#include "millrace/backend/learning_phases.h"
#include "score_gradients.h"

namespace millrace::cpu {

class CompiledNetwork {
 public:
  // The arguments must outlive this object.
  CompiledNetwork(const Network& network, const CompileOptions& options, ParameterStore& parameters);

  // Plans for full batches, and finishes planning the parameters, whose layouts these executables choose. Throws the errors of
  // Executable.
  void compile(const PrimitiveChecks& checks);
  std::size_t arena_bytes() const;
  const dnnl::engine& engine() const { return contexts_.front().engine; }
  // By bucket: the first node in forward order, so the last of backward, with gradients in it.
  const std::vector<int>& bucket_nodes() const { return bucket_nodes_; }

  void start();  // allocates. REQUIRES: the memory of the parameters

  // ---- After start() ----
  Executable& training(std::uint32_t samples, std::uint64_t epoch) {
    return get(executables_, {samples, true, phases_.at(epoch)});
  }
  Executable* full_training(std::uint64_t epoch);  // for full batches; null if the network is not trained
  Executable& inference(std::uint32_t samples) { return get(executables_, {samples, false}); }
  Executable& gradient(LayerPort by, std::uint32_t samples) { return get(gradients_.by(by), {samples, false}); }

  std::vector<LayerTime> layer_times() const { return executables_.layer_times(); }

 private:
  CompileContext& context_of(std::size_t phase);
  Executable& get(Executables<Executable>& among, const Executables<Executable>::Use& use);
  void bind_all();

  const Network& network_;
  const CompileOptions& options_;
  ParameterStore& parameters_;
  const LearningPhases phases_;
  const std::vector<Node> training_nodes_, inference_nodes_;
  std::deque<CompileContext> contexts_;  // by phase, for the phases begun; inference shares the first
  std::vector<int> bucket_nodes_;
  Executables<Executable> executables_;
  ScoreGradients gradients_;
  MemoryRegion arena_;
};

}  // namespace millrace::cpu
