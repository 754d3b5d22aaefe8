// All parameters of one replica, as backend/parameter_plan.h orders them, in the layouts in which the convolutions read them.
// Padding is zero, and stays so.
//
// Threading: planning and values on the replica's thread alone; buckets() from any thread after start().
#pragma once

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <vector>

#include "memory_region.h"
#include "millrace/backend/parameter_plan.h"
#include "orthogonaliser.h"

namespace millrace::cpu {

class ParameterStore {
 public:
  ParameterStore(const Network& network, const CompileOptions& options);

  const Parameter& parameter(int index) const { return plan_.parameter(index); }

  // ---- Planning ----
  // Where a convolution or linear layer says in which layout it reads its weights; `canonical` is the same tensor's desc in the
  // network's own order. The first one decides, and later executables of the same network adapt.
  bool has_layout(int index) const { return !entry(index).layout.is_zero(); }
  const dnnl::memory::desc& layout(int index) const { return entry(index).layout; }             // of the values, float32
  const dnnl::memory::desc& computed_layout(int index) const { return entry(index).computed; }  // of what passes read
  // `layout` is in the type of the computation. Where it has no twin in float32, the parameter stays in its canonical order and
  // every pass rearranges it.
  void set_layout(int index, const dnnl::memory::desc& layout, const dnnl::memory::desc& canonical);
  void finish_planning(const PrimitiveChecks& checks = {});  // places, buckets, products. On the thread that will update
  void append_to(MemoryPlan& plan) const;

  // ---- After start() ----
  void start();
  float* value(int index) { return at(values_, index); }
  float* gradient(int index) { return at(gradients_, index); }
  std::uint16_t* bf16_value(int index);  // kept beside weights with a layout when the precision is bf16
  void* computed_value(int index);       // of weights with a layout, in computed_layout(): what passes read
  const std::vector<Bucket>& buckets() const { return plan_.buckets(); }

  // `step.rate_factor` as for Replica::update().
  void update(int bucket, const UpdateStep& step);
  void lerp_into(std::string_view copy, double decay, bool write_back);
  void swap_with(std::string_view copy);
  void keep_gradients();      // aside, for add_kept()
  void add_kept(int bucket);  // to its gradients
  void zero_gradients();

  std::vector<std::string> states() const { return plan_.state_names(); }
  std::optional<Shape> state_shape(std::string_view state, int parameter) const { return plan_.state_shape(state, parameter); }
  std::vector<float> read(std::string_view state, int index, const dnnl::engine& engine);
  void write(std::string_view state, int index, std::span<const float> values, const dnnl::engine& engine);

 private:
  struct Entry {
    std::size_t elements = 0;  // with the layout's padding
    std::size_t bf16_offset = 0;
    dnnl::memory::desc layout, canonical;  // float32; zero: as in the network
    dnnl::memory::desc computed;           // `layout` in the type of the computation
  };
  const Entry& entry(int index) const { return entries_[static_cast<std::size_t>(index)]; }
  Entry& entry(int index) { return entries_[static_cast<std::size_t>(index)]; }
  float* at(const MemoryRegion& region, int index) const { return region.as<float>() + plan_.offset(index); }
  float* state_of(std::string_view name, int index) const;  // a parameter's place in it
  std::size_t canonical_elements(int index) const { return entry(index).canonical.get_size() / sizeof(float); }
  void plan_workspace();
  UpdateArguments arguments_of(int index, const ParameterPlan::ParameterRange& range);
  void update(int index, const ParameterPlan::ParameterRange& range, const UpdateStep& step);
  UpdateArguments in_rows(int index, const Optimizer& optimizer, const UpdateArguments& at);
  void put_back(int index, const Optimizer& optimizer, const UpdateArguments& from, const UpdateArguments& to);
  void orthogonalise(int index, const Optimizer& optimizer);
  void refresh_bf16(int index);

  const Network& network_;
  CompileOptions options_;
  ParameterPlan plan_{network_, options_};
  std::vector<Entry> entries_;
  std::size_t bf16_ = 0;  // elements
  MemoryRegion values_, gradients_, kept_gradients_, bf16_values_;
  std::vector<MemoryRegion> states_;  // as the plan's
  std::vector<Squares> norms_;        // of the parameter that is updated, then of its chunks; empty: no optimizer needs them
  std::size_t most_directions_ = 0, most_rearranged_ = 0;  // elements that the update of one parameter takes
  MemoryRegion directions_, rearranged_;                   // as the parameter that is updated lies; as the network has it
  Orthogonaliser orthogonaliser_{options_.precision == Precision::bf16 ? DataType::bf16 : DataType::f32};
};

}  // namespace millrace::cpu
