// All parameters of one replica: values, gradients, the states of the update rule and further copies, in the layouts in which the
// convolutions read them.
//
// A state is one array. Every parameter has the same place in each of them, trainable ones first and in the order of the
// buckets, so that a bucket is one stretch of the gradients and an update runs over arrays side by side. Padding is zero, and
// stays so. Threading: planning and values on the replica's thread alone; buckets() from any thread after start().
#pragma once

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <vector>

#include "memory_region.h"
#include "millrace/backend.h"
#include "millrace/rule.h"

namespace millrace::cpu {

class ParameterStore {
 public:
  ParameterStore(const Network& network, const CompileOptions& options);

  const Parameter& parameter(int index) const { return network_.parameters[static_cast<std::size_t>(index)]; }

  // ---- Planning ----
  // Where a convolution or linear layer says in which layout it reads its weights; `canonical` is the same tensor's desc in the
  // network's own order. The first one decides, and later executables of the same network adapt.
  bool has_layout(int index) const { return !entry(index).layout.is_zero(); }
  const dnnl::memory::desc& layout(int index) const { return entry(index).layout; }             // of the values, float32
  const dnnl::memory::desc& computed_layout(int index) const { return entry(index).computed; }  // of what passes read
  // `layout` is in the type of the computation. Where it has no twin in float32, the parameter stays in its canonical order and
  // every pass rearranges it.
  void set_layout(int index, const dnnl::memory::desc& layout, const dnnl::memory::desc& canonical);
  void finish_planning();  // offsets, buckets
  void append_to(MemoryPlan& plan) const;

  // ---- After start() ----
  void start();
  float* value(int index) { return at(values_, index); }
  float* gradient(int index) { return at(gradients_, index); }
  std::uint16_t* bf16_value(int index);  // kept beside weights with a layout when the precision is bf16
  const std::vector<Bucket>& buckets() const { return buckets_; }

  // `step.rate_factor` as for Replica::update().
  void update(int bucket, const UpdateStep& step);
  void blend(std::string_view copy, double decay, bool write_back);
  void exchange(std::string_view copy);
  void keep_gradients();      // aside, for add_kept()
  void add_kept(int bucket);  // to its gradients
  void zero_gradients();

  std::vector<std::string> states() const;
  std::vector<float> read(std::string_view state, int index, const dnnl::engine& engine);
  void write(std::string_view state, int index, std::span<const float> values, const dnnl::engine& engine);

 private:
  struct Entry {
    std::size_t offset = 0;    // in floats
    std::size_t elements = 0;  // with the layout's padding
    std::size_t bf16_offset = 0;
    dnnl::memory::desc layout, canonical;  // float32; zero: as in the network
    dnnl::memory::desc computed;           // `layout` in the type of the computation
  };
  const Entry& entry(int index) const { return entries_[static_cast<std::size_t>(index)]; }
  Entry& entry(int index) { return entries_[static_cast<std::size_t>(index)]; }
  float* at(MemoryRegion& region, int index) { return region.as<float>() + entry(index).offset; }
  // An array of a rule's state, or a copy that blend() moves.
  struct State {
    std::string name;
    float initial = 0;
    std::size_t elements = 0;
    bool copy = false, begun = false;  // a copy begins with the values that blend() finds first, unless it is written
    MemoryRegion memory = {};
  };
  State* find_state(std::string_view name);
  State& find_copy(std::string_view name);  // Error(usage) when it was not asked for
  MemoryRegion& region(std::string_view state, int index);
  UpdateArguments arguments_of(int index);
  void place_all(const std::vector<int>& indices, std::size_t& offset);
  void plan_states();
  void refresh_bf16(int index);

  const Network& network_;
  CompileOptions options_;
  std::vector<Entry> entries_;
  std::vector<Bucket> buckets_;
  std::size_t trainable_ = 0, blended_ = 0, all_ = 0, bf16_ = 0;  // elements; blended: trainable ones and statistics
  MemoryRegion values_, gradients_, kept_gradients_, bf16_values_;
  std::vector<State> states_;   // the rule's in its order, then the copies
  std::vector<Squares> norms_;  // of the parameter that is updated, then of its chunks; empty: the rule needs none
};

}  // namespace millrace::cpu
