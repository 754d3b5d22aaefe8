// The layouts of a replica's parameters: those of the convolutions and linear layers that read them.
//
// Threading: the replica's thread.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "millrace/backend/network.h"

namespace millrace::cpu {

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

}  // namespace millrace::cpu
