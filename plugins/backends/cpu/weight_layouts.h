// In which layouts the parameters of a replica lie: those of the convolutions and linear layers that read them.
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

  // A convolution or linear layer says in which layout it reads its weights; `canonical` is the same tensor's desc in the
  // network's own order. The first one decides, and later executables of the same network adapt. `layout` is in the type of the
  // computation. Where it has no twin in float32, the parameter stays in its canonical order and every pass rearranges it.
  void set(int parameter, const dnnl::memory::desc& layout, const dnnl::memory::desc& canonical);

  bool has(int parameter) const { return !entry(parameter).held.is_zero(); }
  const dnnl::memory::desc& held(int parameter) const { return entry(parameter).held; }          // of the values, float32
  const dnnl::memory::desc& computed(int parameter) const { return entry(parameter).computed; }  // of what passes read
  const dnnl::memory::desc& canonical(int parameter) const { return entry(parameter).canonical; }
  std::size_t elements(int parameter) const { return entry(parameter).elements; }  // with the layout's padding
  std::size_t canonical_elements(int parameter) const { return canonical(parameter).get_size() / sizeof(float); }

  // Copy an array of the parameter, such as a state, to the network's own order and back. REQUIRES: has().
  void to_canonical(int parameter, const float* held, float* canonical, const dnnl::engine& engine) const;
  void from_canonical(int parameter, const float* canonical, float* held, const dnnl::engine& engine) const;

 private:
  struct Entry {
    std::size_t elements = 0;
    dnnl::memory::desc held, canonical;  // float32; zero: the parameter lies as in the network
    dnnl::memory::desc computed;         // `held` in the type of the computation
  };
  const Entry& entry(int parameter) const { return entries_[static_cast<std::size_t>(parameter)]; }

  std::vector<Entry> entries_;
};

}  // namespace millrace::cpu
