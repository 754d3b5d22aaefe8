// Updates the parameters of a bucket by their optimizers: one launch over parallel arrays for each range of the plan
// (backend/update_plan.h), with a table of the differences between parameters, and the workspace for norms and matrices.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "host_memory.h"
#include "millrace/backend/store_plan.h"
#include "orthogonaliser.h"

namespace millrace::cuda {

// Not thread-safe. Nothing here waits for the device.
class OptimizerLaunches {
 public:
  // The plan must outlive this object. It may be made later.
  explicit OptimizerLaunches(const StorePlan& plan) : plan_(plan), orthogonaliser_(plan.parameters.options()) {}

  // `matrices`: by parameter, in memory order. REQUIRES: the plan is made.
  void plan(Machine& machine, std::vector<MatrixShape> matrices);
  std::size_t norm_bytes() const;
  std::size_t workspace_bytes() const { return most_directions_ * sizeof(float) + orthogonaliser_.bytes(); }
  void start(Machine& machine);

  // `arrays_of` returns the addresses and extents of a range's arrays: the first members of UpdateArguments.
  using ArraysOf = std::function<UpdateArguments(const UpdatePlan::Range& range)>;
  void update(Queue& queue, int bucket, const UpdateStep& step, const ArraysOf& arrays_of);

 private:
  // Data of one range of the plan.
  struct Launch {
    std::size_t first_segment = 0, segments = 0;
    std::int64_t chunks = 0;  // for norms
  };
  void plan_launches();
  std::vector<UpdateSegment> segments_of(const UpdatePlan::Range& range, std::span<const double> rate_factor) const;
  void upload_segments(Queue& queue, std::span<const double> rate_factor);
  void update(Queue& queue, const UpdatePlan::Range& range, UpdateArguments arguments, const UpdateStep& step);

  const StorePlan& plan_;
  std::vector<MatrixShape> matrices_;
  std::vector<std::vector<Launch>> launches_;  // by bucket, parallel to the plan's ranges; empty without an optimizer
  std::size_t segment_count_ = 0;
  std::int64_t most_chunks_ = 0;     // per launch
  std::size_t most_directions_ = 0;  // elements in a range of scope `matrix`
  Orthogonaliser orthogonaliser_;
  Machine* machine_ = nullptr;
  DeviceMemory segments_, norms_, directions_;
  bool segments_are_up_ = false;
  std::vector<double> uploaded_factors_;
  std::deque<HostMemory> uploads_;  // one per change of the factors, which is rare: the device may still read them
};

}  // namespace millrace::cuda
