// All parameters of one replica (backend/store_plan.h) in the layouts of the convolutions that read them.
//
// Threading: planning and values only on the replica's thread; plan() from any thread after start().
#pragma once

#include <deque>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <vector>

#include "folding.h"
#include "memory_region.h"
#include "millrace/backend/store_plan.h"
#include "orthogonaliser.h"

namespace millrace::cpu {

// The layouts of a replica's parameters: those of the convolutions and linear layers that read them. Threading: the replica's
// thread.
class WeightLayouts {
 public:
  explicit WeightLayouts(const Network& network);

  // Called by a convolution or linear layer with the layout of its weights; `canonical` is the same tensor's desc in the
  // network's order. The first call decides, and later executables of the same network adapt. `layout` is in the computation's
  // type. If it has no float32 equivalent, the parameter stays in canonical order and every pass rearranges it.
  void set(int parameter, const dnnl::memory::desc& layout, const dnnl::memory::desc& canonical);

  bool has(int parameter) const { return !entry(parameter).held.is_zero(); }
  const dnnl::memory::desc& held(int parameter) const { return entry(parameter).held; }          // layout of the values, float32
  const dnnl::memory::desc& computed(int parameter) const { return entry(parameter).computed; }  // layout that passes read
  const dnnl::memory::desc& canonical(int parameter) const { return entry(parameter).canonical; }
  std::size_t elements(int parameter) const { return entry(parameter).elements; }  // including the layout's padding
  std::size_t canonical_elements(int parameter) const { return canonical(parameter).get_size() / sizeof(float); }

  // Copies an array of the parameter, such as a state, to the network's order and back. REQUIRES: has().
  void to_canonical(int parameter, const float* held, float* canonical, const dnnl::engine& engine) const;
  void from_canonical(int parameter, const float* canonical, float* held, const dnnl::engine& engine) const;

 private:
  struct Entry {
    std::size_t elements = 0;
    dnnl::memory::desc held, canonical;  // float32; zero: the parameter has the network's layout
    dnnl::memory::desc computed;         // `held` in the type of the computation
  };
  const Entry& entry(int parameter) const { return entries_[static_cast<std::size_t>(parameter)]; }

  std::vector<Entry> entries_;
};

class ParameterStore : public ParameterArrays<MemoryRegion> {
 public:
  using ParameterArrays::ParameterArrays;

  // ---- Planning ----
  WeightLayouts& layouts() { return layouts_; }
  void finish_planning(const PrimitiveChecks& checks = {});  // places, buckets, products. Call on the thread that will update
  void append_to(MemoryPlan& plan) const;
  // For replicas that only predict, also after start(). Returns the same object for equal layers and forms.
  PreparedWeights& prepare(const Layer& conv, const Layer* norm, const std::string& form, std::size_t bytes,
                           std::function<void(const float* weights, void* to)> fill);

  // ---- After start() ----
  void start();
  void refresh(PreparedWeights& prepared, const dnnl::engine& engine);  // computes them if the parameters have changed
  void* computed_value(int index);  // for weights with a layout, in WeightLayouts::computed(): read by passes
  void add_kept_gradients(int bucket);

  // `step.rate_factor` as for Replica::update().
  void update(int bucket, const UpdateStep& step);
  void lerp_into(std::string_view copy, double decay, bool write_back);
  void swap_with(std::string_view copy);

  std::vector<float> read(std::string_view state, int index, const dnnl::engine& engine);
  void write(std::string_view state, int index, std::span<const float> values, const dnnl::engine& engine);
  std::uint64_t version() const { return version_; }  // of the values; at least 1

 private:
  int count() const { return static_cast<int>(network_.parameters.size()); }
  std::uint16_t* bf16_value(int index);  // kept in addition to weights with a layout if the precision is bf16
  void plan_bf16_values();
  void plan_workspace();
  UpdateArguments arguments_of(int index, const UpdatePlan::Range& range);
  void update(int index, const UpdatePlan::Range& range, const UpdateStep& step);
  UpdateArguments in_rows(int index, const Optimizer& optimizer, const UpdateArguments& at);
  void put_back(int index, const Optimizer& optimizer, const UpdateArguments& from, const UpdateArguments& to);
  void orthogonalise(int index, const Optimizer& optimizer);
  void refresh_bf16(int index);
  void refresh_all_bf16();
  std::size_t prepared_bytes() const;
  static std::byte* place(PreparedWeights& prepared, std::byte* memory);  // returns the end of its memory
  void values_changed() { ++version_; }

  WeightLayouts layouts_{network_};
  std::deque<PreparedWeights> prepared_;
  MemoryRegion prepared_memory_;            // one region: large pages make its first use faster
  std::vector<MemoryRegion> later_memory_;  // of those requested after start()
  std::uint64_t version_ = 1;               // of the values
  bool started_ = false;
  std::vector<std::size_t> bf16_offsets_;  // by parameter
  std::size_t bf16_ = 0;                   // elements
  MemoryRegion bf16_values_;
  std::vector<Squares> norms_;  // first for the current parameter, then for its chunks; empty if no optimizer needs them
  std::size_t most_directions_ = 0, most_rearranged_ = 0;  // elements needed to update one parameter
  MemoryRegion directions_, rearranged_;                   // in the layout of the current parameter; in the network's layout
  Orthogonaliser orthogonaliser_{options_.precision == Precision::bf16 ? DataType::bf16 : DataType::f32};
};

}  // namespace millrace::cpu
