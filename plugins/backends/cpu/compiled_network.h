// A network compiled for one replica: executables for training, phase by phase, for inference and for gradients of scores, and
// the memory that they share, since no two of them run at the same time.
//
// Threading: only on the replica's thread, except arena_bytes(), from any thread after compile().
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "executable.h"
#include "memory_region.h"
#include "millrace/backend/executables.h"
#include "millrace/backend/learning_phases.h"

namespace millrace::cpu {

// Gradients of scores by values of a network (CompileRequest::gradients): inference of a network without trained parameters, and
// its backward down to the value. Threading: only on the replica's thread.
class ScoreGradients {
 public:
  explicit ScoreGradients(const Network& network);

  // Plans the gradients that `options` requests. `shared`: context of the replica's other executables. Throws Error(usage) for a
  // value without a gradient.
  void compile(const CompileOptions& options, const CompileContext& shared);
  std::size_t arena_bytes() const;
  void bind(std::byte* arena) const;
  // The networks that compute the gradient by this value. Throws Error(usage) if none was requested.
  Executables<Executable>& by(LayerPort value);

 private:
  struct Compiled {
    std::vector<Node> nodes;
    Executables<Executable> executables;
  };
  void compile(const CompileOptions& inference, LayerPort by);

  const Network network_;  // without trained parameters
  std::unique_ptr<CompileContext> compile_context_;
  std::map<LayerPort, Compiled> compiled_;
};

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
