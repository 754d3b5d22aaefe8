// All parameters of one replica in device memory (backend/store_plan.h). In bf16, convolutions and products read a mirror of
// the values, with the same places.
//
// Not thread-safe. Only read() and write() wait for the device.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "kernels/portable.h"
#include "machine.h"
#include "millrace/backend/store_plan.h"
#include "orthogonaliser.h"

namespace millrace::cuda {

// A parameter in the network's order, (out, in, height, width), and in memory: (out_pitch, height, width, in_pitch).
struct WeightLayout {
  std::int64_t out = 0, in = 1, height = 1, width = 1;
  std::int64_t out_pitch = 0, in_pitch = 1;

  static WeightLayout vector(std::int64_t elements) { return {elements, 1, 1, 1, pitch_of(elements), 1}; }
  std::size_t elements() const { return static_cast<std::size_t>(out_pitch * height * width * in_pitch); }
  // The layout of one number for each column of the matrix (out, all others).
  WeightLayout of_columns() const { return {1, in, height, width, 1, in_pitch}; }
  friend bool operator==(const WeightLayout&, const WeightLayout&) = default;
};
// Converts between the two orders; padding becomes zero.
std::vector<float> to_memory(const WeightLayout& layout, std::span<const float> values);
std::vector<float> from_memory(const WeightLayout& layout, std::span<const float> memory);

class ParameterStore : public ParameterArrays<DeviceMemory> {
 public:
  ParameterStore(const Network& network, const CompileOptions& options)
      : ParameterArrays(network, options), layouts_(network.parameters.size()) {}

  // ---- Planning ----
  // Vectors unless set by a layer. Throws Error(usage) if two executables of one network disagree.
  void set_layout(int index, const WeightLayout& layout);
  void finish_planning(Machine& machine);  // places, buckets, products
  void append_to(MemoryPlan& plan) const;

  void start(Machine& machine);

  // ---- After start() ----
  void* weights(int index) const;  // read by convolutions and products: the value, or its mirror in bf16
  void add_kept_gradients(Queue& queue, int bucket);

  // One launch over parallel arrays for each range of the plan (backend/update_plan.h), with a table of the differences between
  // parameters, and the workspace for norms and matrices.
  void update(Queue& queue, int bucket, const UpdateStep& step);
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
  WeightLayout layout_of(std::string_view state, int index) const;
  void mirror(Queue& queue, int index);

  // Data of one range of the plan.
  struct Launch {
    std::size_t first_segment = 0, segments = 0;
    std::int64_t chunks = 0;  // for norms
  };
  void plan_launches();
  std::size_t norm_bytes() const;
  std::vector<UpdateSegment> segments_of(const UpdatePlan::Range& range, std::span<const double> rate_factor) const;
  void upload_segments(Queue& queue, std::span<const double> rate_factor);
  UpdateArguments arguments_of(const UpdatePlan::Range& range, const Launch& launch, const UpdateStep& step) const;

  HostMemory& staging(std::size_t bytes);
  template <class Copy>
  void in_pieces(std::size_t bytes, const Copy& copy);
  std::shared_ptr<HostMemory> pin_copy(std::size_t bytes);  // null: it cannot be had

  std::vector<WeightLayout> layouts_;  // by parameter
  Machine* machine_ = nullptr;
  DeviceMemory mirror_;

  std::vector<MatrixShape> matrices_;          // by parameter, in memory order
  std::vector<std::vector<Launch>> launches_;  // by bucket, parallel to the plan's ranges; empty without an optimizer
  std::size_t segment_count_ = 0;
  std::int64_t most_chunks_ = 0;     // per launch
  std::size_t most_directions_ = 0;  // elements in a range of scope `matrix`
  Orthogonaliser orthogonaliser_{plan_.parameters.options()};
  DeviceMemory segments_, norms_, directions_;
  bool segments_are_up_ = false;
  std::vector<double> uploaded_factors_;
  std::deque<HostMemory> uploads_;  // one per change of the factors, which is rare: the device may still read them

  // Pinning takes far longer than a copy, so pinned memory is kept.
  std::unique_ptr<HostMemory> staging_;  // unused between calls of read() and write()
  std::shared_ptr<HostMemory> copy_;     // for capture(), reused when no snapshot uses it any more
  bool pins_copies_ = true;              // false: it could not, and is not tried again
};

}  // namespace millrace::cuda
