// How optimizers update the parameters of a bucket: one launch over arrays side by side for each range of the plan
// (backend/update_plan.h), with a table of what differs from parameter to parameter, and the workspace that norms and matrices
// need.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "host_memory.h"
#include "millrace/backend/store_plan.h"
#include "orthogonaliser.h"

namespace millrace::cuda {

// One thread at a time. Nothing here waits for the device.
class OptimizerLaunches {
 public:
  // The plan outlives this object. It may be made later.
  explicit OptimizerLaunches(const StorePlan& plan) : plan_(plan), orthogonaliser_(plan.parameters.options()) {}

  // `matrices`: by parameter, as they lie in memory. REQUIRES: the plan is made.
  void plan(Machine& machine, std::vector<MatrixShape> matrices);
  std::size_t norm_bytes() const;
  std::size_t workspace_bytes() const { return most_directions_ * sizeof(float) + orthogonaliser_.bytes(); }
  void start(Machine& machine);

  // `arrays_of` gives the addresses and extents of a range's arrays: the first members of UpdateArguments.
  using ArraysOf = std::function<UpdateArguments(const UpdatePlan::Range& range)>;
  void update(Queue& queue, int bucket, const UpdateStep& step, const ArraysOf& arrays_of);

 private:
  // What belongs to one of the plan's ranges.
  struct Launch {
    std::size_t first_segment = 0, segments = 0;
    std::int64_t chunks = 0;  // of norms
  };
  void plan_launches();
  std::vector<UpdateSegment> segments_of(const UpdatePlan::Range& range, std::span<const double> rate_factor) const;
  void upload_segments(Queue& queue, std::span<const double> rate_factor);
  void update(Queue& queue, const UpdatePlan::Range& range, UpdateArguments arguments, const UpdateStep& step);

  const StorePlan& plan_;
  std::vector<MatrixShape> matrices_;
  std::vector<std::vector<Launch>> launches_;  // by bucket, as the plan's ranges; empty without an optimizer
  std::size_t segment_count_ = 0;
  std::int64_t most_chunks_ = 0;     // of a launch
  std::size_t most_directions_ = 0;  // elements of a range of scope `matrix`
  Orthogonaliser orthogonaliser_;
  Machine* machine_ = nullptr;
  DeviceMemory segments_, norms_, directions_;
  bool segments_are_up_ = false;
  std::vector<double> uploaded_factors_;
  std::deque<HostMemory> uploads_;  // one for each change of the factors, which is seldom: the device may still read them
};

}  // namespace millrace::cuda
