// A network compiled for one replica: executables for training, phase by phase, and for inference, and the device memory that
// they share, since no two of them run at the same time.
//
// Threading: one thread at a time. Only `drain` waits for the device, when memory is replaced or a new count of samples appears.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executable.h"
#include "millrace/backend/executables.h"
#include "millrace/backend/learning_phases.h"

namespace millrace::cuda {

class CompiledNetwork {
 public:
  // Plans for full batches, and finishes planning `parameters`, whose layouts these executables choose. Throws the errors of
  // Executable. The arguments must outlive this object.
  CompiledNetwork(Machine& machine, const Network& network, const CompileOptions& options, ParameterStore& parameters);

  std::size_t arena_bytes() const { return executables_.arena_bytes(); }
  const Shortcuts& shortcuts() const { return contexts_.front().shortcuts; }  // those that the device supports
  // By bucket: the first node in forward order, so the last of backward, with gradients in it.
  const std::vector<int>& bucket_nodes() const { return bucket_nodes_; }

  // Allocates. REQUIRES: the memory of `parameters`. `drain` waits for all submitted work: called before memory that such work
  // may use is released.
  void start(std::function<void()> drain);

  // ---- After start() ----
  Executable& training(std::uint32_t samples, std::uint64_t epoch) { return get({samples, true, phases_.at(epoch)}); }
  Executable& inference(std::uint32_t samples) { return get({samples, false}); }
  StepScalars* scalars() const { return scalars_.as<StepScalars>(); }            // device memory: a step's values for passes
  Executable* full(bool training) const { return executables_.full(training); }  // null: not compiled for it

  // One pass over zeros that changes no running statistics, so that the driver and the libraries load their kernels.
  void rehearse(Executable& network, Queue& queue);

  std::string engines() const;  // engines for full batches, by layer
  bool times_layers() const { return layer_meter_ != nullptr; }
  std::vector<LayerTime> layer_times() const;  // REQUIRES: times_layers(), and all work is complete

 private:
  std::vector<Node> fuse_for(std::vector<LayerPort> outputs) const;  // outputs: values read outside layers
  CompileContext& context_of(std::size_t phase);
  Executable& get(const Executables<Executable>::Use& use);
  void bind_all(std::size_t arena_bytes);

  Machine& machine_;
  const Network& network_;
  const CompileOptions& options_;
  ParameterStore& parameters_;
  const LearningPhases phases_;
  std::deque<CompileContext> contexts_;  // by phase, for the phases begun; inference shares the first
  const std::vector<Node> training_nodes_, inference_nodes_;
  std::vector<int> bucket_nodes_;
  Executables<Executable> executables_;
  DeviceMemory arena_, scalars_, tickets_;
  std::unique_ptr<DeviceMeter> layer_meter_;  // with CompileOptions::time_layers: a span for each layer of a pass
  std::function<void()> drain_;
};

}  // namespace millrace::cuda
