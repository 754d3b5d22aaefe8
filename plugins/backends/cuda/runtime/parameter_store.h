// All parameters of one replica in device memory, as backend/parameter_plan.h orders them: an update of a bucket is one launch
// over arrays side by side for each of its optimizers. In bf16 a mirror of the values, with the same places, is what convolutions
// and products read. Padding is zero, and stays so.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "machine.h"
#include "millrace/backend/parameter_plan.h"
#include "orthogonaliser.h"

namespace millrace::cuda {

// A parameter as the network has it, (out, in, height, width), and as it lies in memory: (out_pitch, height, width, in_pitch).
struct WeightLayout {
  std::int64_t out = 0, in = 1, height = 1, width = 1;
  std::int64_t out_pitch = 0, in_pitch = 1;

  static WeightLayout vector(std::int64_t elements) { return {elements, 1, 1, 1, pitch_of(elements), 1}; }
  std::size_t elements() const { return static_cast<std::size_t>(out_pitch * height * width * in_pitch); }
  // The layout of one number for each column of the matrix (out, all others).
  WeightLayout of_columns() const { return {1, in, height, width, 1, in_pitch}; }
  friend bool operator==(const WeightLayout&, const WeightLayout&) = default;
};
// Between the two orders; padding becomes zero.
std::vector<float> to_memory(const WeightLayout& layout, std::span<const float> values);
std::vector<float> from_memory(const WeightLayout& layout, std::span<const float> memory);

// Pinned host memory that is released with its owner.
class HostMemory {
 public:
  HostMemory(Machine& machine, std::size_t bytes) : machine_(machine), data_(machine.allocate_host(bytes)), bytes_(bytes) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() { machine_.release_host(data_); }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Machine& machine_;
  std::byte* data_;
  std::size_t bytes_;
};

class ParameterStore {
 public:
  ParameterStore(const Network& network, const CompileOptions& options);

  const Parameter& parameter(int index) const { return plan_.parameter(index); }

  // ---- Planning ----
  // Vectors unless a layer says otherwise. Throws Error(usage) when two executables of one network disagree.
  void set_layout(int index, const WeightLayout& layout);
  void finish_planning(Machine& machine);  // places, buckets, products
  void append_to(MemoryPlan& plan) const;

  void start(Machine& machine);

  // ---- After start() ----
  float* value(int index) const { return values_.as<float>() + plan_.offset(index); }
  float* gradient(int index) const { return gradients_.as<float>() + plan_.offset(index); }
  void* weights(int index) const;  // what convolutions and products read: the value, or its mirror in bf16
  const std::vector<Bucket>& buckets() const { return plan_.buckets(); }

  void update(Queue& queue, int bucket, const UpdateStep& step);
  // decay 0 leaves the values alone: others may be reading them.
  void lerp_into(Queue& queue, std::string_view copy, double decay, bool write_back);
  void swap_with(Queue& queue, std::string_view copy);
  void keep_gradients(Queue& queue);        // aside, for add_kept()
  void add_kept(Queue& queue, int bucket);  // to its gradients
  void zero_gradients(Queue& queue);

  std::vector<std::string> states() const { return plan_.state_names(); }
  std::optional<Shape> state_shape(std::string_view state, int parameter) const { return plan_.state_shape(state, parameter); }
  // Through `queue`; both wait for it. By way of pinned memory that is made with the first call and kept.
  std::vector<float> read(Queue& queue, std::string_view state, int index);
  void write(Queue& queue, std::string_view state, int index, std::span<const float> values);
  // Copied by `queue` to pinned memory that is made with the first call and kept; what it does later waits for them.
  std::unique_ptr<Snapshot> capture(Queue& queue, std::span<const StateOf> states);

 private:
  // What belongs to one of the plan's ranges.
  struct Launch {
    std::size_t first_segment = 0, segments = 0;
    std::int64_t chunks = 0;  // of norms
  };
  std::size_t norm_bytes() const;
  void plan_launches();
  bool is_vector(int index) const;
  MatrixShape matrix_in_memory(int index) const;
  WeightLayout layout_of(std::string_view state, int index) const;
  float* state_of(std::string_view name, int index) const;  // a parameter's place in it
  bool mirrored() const { return options_.precision == Precision::bf16; }
  void upload_segments(Queue& queue, std::span<const double> rate_factor);
  void fill(float* memory, std::size_t elements, float value);
  std::vector<UpdateSegment> segments_of(const ParameterPlan::ParameterRange& range, std::span<const double> rate_factor) const;
  UpdateArguments arguments_of(const ParameterPlan::ParameterRange& range, const Launch& launch) const;
  void update(Queue& queue, const ParameterPlan::ParameterRange& range, const Launch& launch, const UpdateStep& step);
  void mirror(Queue& queue, int index);
  HostMemory& staging(std::size_t bytes);
  template <class Copy>
  void in_pieces(std::size_t bytes, const Copy& copy);

  const Network& network_;
  CompileOptions options_;
  ParameterPlan plan_{network_, options_};
  std::vector<WeightLayout> layouts_;          // by parameter
  std::vector<std::vector<Launch>> launches_;  // by bucket, as the plan's ranges; empty without an optimizer
  std::size_t segment_count_ = 0;
  std::int64_t most_chunks_ = 0;     // of a launch
  std::size_t most_directions_ = 0;  // elements of a range of scope `matrix`
  Orthogonaliser orthogonaliser_{options_};
  Machine* machine_ = nullptr;
  DeviceMemory values_, mirror_, gradients_, kept_gradients_, segments_, norms_, directions_;
  std::vector<DeviceMemory> states_;  // as the plan's
  bool segments_are_up_ = false;
  std::vector<double> uploaded_factors_;
  std::deque<HostMemory> uploads_;        // one for each change of the factors, which is seldom: the device may still read them
  std::shared_ptr<HostMemory> captured_;  // of the last capture()
  std::unique_ptr<HostMemory> staging_;   // between calls of read() and write() no copy uses it
};

}  // namespace millrace::cuda
