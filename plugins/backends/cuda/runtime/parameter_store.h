// All parameters of one replica in device memory, ordered by backend/store_plan.h. In bf16, convolutions and products read a
// mirror of the values, with the same places. Padding stays zero.
//
// optimizer_launches.h updates the parameters of a bucket, pinned_transfer.h copies values to the host and back.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gradients.h"
#include "machine.h"
#include "millrace/backend/store_plan.h"
#include "optimizer_launches.h"
#include "pinned_transfer.h"
#include "weight_layout.h"

namespace millrace::cuda {

class ParameterStore {
 public:
  ParameterStore(const Network& network, const CompileOptions& options);

  const StorePlan& plan() const { return plan_; }

  // ---- Planning ----
  // Vectors unless set by a layer. Throws Error(usage) if two executables of one network disagree.
  void set_layout(int index, const WeightLayout& layout);
  void finish_planning(Machine& machine);  // places, buckets, products
  void append_to(MemoryPlan& plan) const;

  void start(Machine& machine);

  // ---- After start() ----
  float* value(int index) const { return values_.as<float>() + plan_.parameters.offset(index); }
  void* weights(int index) const;  // read by convolutions and products: the value, or its mirror in bf16
  Gradients& gradients() { return gradients_; }

  void update(Queue& queue, int bucket, const UpdateStep& step);
  // decay 0 does not write the values: others may be reading them.
  void lerp_into(Queue& queue, std::string_view copy, double decay, bool write_back);
  void swap_with(Queue& queue, std::string_view copy);

  // Through `queue`; both wait for it.
  std::vector<float> read(Queue& queue, std::string_view state, int index);
  void write(Queue& queue, std::string_view state, int index, std::span<const float> values);
  // Copies states through `queue`, whose later work waits for the copies.
  std::unique_ptr<Snapshot> capture(Queue& queue, std::span<const StateOf> states);

 private:
  bool mirrored() const { return options_.precision == Precision::bf16; }
  bool is_vector(int index) const;
  MatrixShape matrix_in_memory(int index) const;
  std::shared_ptr<HostMemory> pin_copy(std::size_t bytes);  // null: it cannot be had
  WeightLayout layout_of(std::string_view state, int index) const;
  float* state_of(std::string_view name, int index) const;  // a parameter's place in it
  UpdateArguments arrays_of(const UpdatePlan::Range& range) const;
  void mirror(Queue& queue, int index);

  const Network& network_;
  CompileOptions options_;
  StorePlan plan_{network_, options_};
  std::vector<WeightLayout> layouts_;  // by parameter
  OptimizerLaunches launches_{plan_};
  PinnedTransfer transfer_;
  bool pins_copies_ = true;  // false: it could not, and is not tried again
  Machine* machine_ = nullptr;
  DeviceMemory values_, mirror_;
  Gradients gradients_{plan_.parameters};
  std::vector<DeviceMemory> states_;  // parallel to the plan's states
};

}  // namespace millrace::cuda
