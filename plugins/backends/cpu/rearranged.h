// A convolution that oneDNN computes on rearranged copies of its maps. Derived classes define the arrangement.
#pragma once

#include "convolution/own_convolution.h"
#include "operand.h"

namespace millrace::cpu {

class RearrangedConvolution : public OwnConvolution {
 public:
  using OwnConvolution::OwnConvolution;
  std::string detail() const final;

 protected:
  // oneDNN's computation.
  struct Arrangement {
    MapSpec x, y;
    dnnl::memory::dims strides, before, after;  // padding
  };
  virtual Arrangement arrange(const MapSpec& x, const MapSpec& y) = 0;
  virtual const char* name() const = 0;
  // `stride`: columns of the map per output column.
  virtual void to_arranged(const Map& map, std::int64_t stride, const Map& arranged) const = 0;
  virtual void from_arranged(const Map& arranged, std::int64_t stride, const Map& map) const = 0;

  void plan_forward(Planner& planner) final;
  void plan_weights(Planner& planner) final;
  void plan_data(Planner& planner) final;
  void bind_scratch(const Binding& binding) final;
  void convolve(const Map& x, const float* bias, bool relu, const Map& y) final;
  void convolve_backward_weights(const Map& x, const Map& dy, float* d_weights) final;
  void convolve_backward_data(const Map& dy, const Map& dx) final;

 private:
  // An arranged map. Forward and backward have separate copies: each exists only during its planned time.
  struct Copy {
    TensorId tensor = kNoTensor;
    Map map;
    dnnl::memory memory;

    void plan(Planner& planner, const MapSpec& spec) { tensor = planner.tensor(spec.bytes()); }
    void bind(const Binding& binding, const dnnl::engine& engine, const MapSpec& spec);
  };

  using PrimitiveDesc = dnnl::primitive_desc_base;
  WindowSum sum_of(WindowSum::Pass pass, const dnnl::memory::desc& weights) const;
  void arrange_maps(const Planner& planner);
  PrimitiveDesc choose_forward(const Planner& planner);
  dnnl::memory::desc bias_desc() const;
  dnnl::memory::desc canonical_weights() const;
  const dnnl::memory::desc& computed_weights() const;
  void* held_weights() const;
  std::int64_t stride() const { return conv().stride.width; }

  Arrangement arrangement_;
  Step forward_, data_, weights_;
  Operand kernel_, data_kernel_, d_kernel_;
  Copy forward_x_, forward_y_, backward_x_, backward_dy_, backward_dx_;
};

}  // namespace millrace::cpu
