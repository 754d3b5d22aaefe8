#include "weight_layouts.h"

#include <optional>

#include "primitives.h"

namespace millrace::cpu {
namespace {

void rearrange(const dnnl::memory::desc& from, const float* source, const dnnl::memory::desc& to, float* destination,
               const dnnl::engine& engine) {
  dnnl::memory in(from, engine, const_cast<float*>(source));  // NOLINT: oneDNN has no const memory
  dnnl::memory out(to, engine, destination);
  dnnl::stream stream(engine);
  dnnl::reorder(in, out).execute(stream, in, out);
  stream.wait();
}

}  // namespace

WeightLayouts::WeightLayouts(const Network& network) : entries_(network.parameters.size()) {
  for (std::size_t index = 0; index < entries_.size(); ++index) {
    entries_[index].elements = static_cast<std::size_t>(network.parameters[index].shape.elements());
  }
}

void WeightLayouts::set(int parameter, const dnnl::memory::desc& layout, const dnnl::memory::desc& canonical) {
  Entry& target = entries_[static_cast<std::size_t>(parameter)];
  const std::optional<dnnl::memory::desc> twin = in_type(layout, dnnl::memory::data_type::f32);
  target.held = twin.value_or(canonical);
  target.computed = twin ? layout : *in_type(canonical, type_of(layout));
  target.canonical = canonical;
  target.elements = target.held.get_size() / sizeof(float);
}

void WeightLayouts::to_canonical(int parameter, const float* held, float* canonical, const dnnl::engine& engine) const {
  rearrange(entry(parameter).held, held, entry(parameter).canonical, canonical, engine);
}

void WeightLayouts::from_canonical(int parameter, const float* canonical, float* held, const dnnl::engine& engine) const {
  rearrange(entry(parameter).canonical, canonical, entry(parameter).held, held, engine);
}

}  // namespace millrace::cpu
