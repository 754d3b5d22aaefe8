// What a convolution, a transposed one, a fully connected layer or a product of matrices asks of oneDNN, as a value: so that the
// same can be asked again for fewer samples, or of another implementation.
#pragma once

#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

namespace millrace::cpu {

struct WindowSum {
  using Desc = dnnl::memory::desc;
  enum class Layer : std::uint8_t { convolution, transposed_convolution, linear, product };  // the last has no gradients
  enum class Pass : std::uint8_t { forward, data, weights };  // the latter: gradients by the source, by the weights

  Layer layer = Layer::convolution;
  Pass pass = Pass::forward;
  dnnl::prop_kind forward_kind = dnnl::prop_kind::forward_training;
  dnnl::algorithm how = dnnl::algorithm::undef;
  dnnl::memory::dims strides = {}, dilates = {}, before = {}, after = {};  // of windows; dilates as oneDNN counts, from 0
  // The pass's operands. One of them is its result; in a backward pass, `destination` is its gradient. oneDNN chooses the layout
  // of those that are "any". A zero bias is none. Those of a product are (rows, inner), (inner, columns) and (rows, columns).
  Desc source = {}, weights = {}, bias = {}, destination = {};
};

// Which of oneDNN's implementations may be taken.
using Pick = std::function<bool(const dnnl::primitive_desc_base&)>;

// The first implementation that `pick` allows; without it the first. Throws dnnl::error where there is none.
dnnl::primitive_desc_base describe(const dnnl::engine& engine, const WindowSum& sum, const Pick& pick = {});

// The same with the layouts that were chosen for the primitive.
WindowSum as_chosen(WindowSum sum, const dnnl::primitive_desc_base& chosen);
// ... and for fewer samples, which lie as the first ones do. REQUIRES: no layout is "any".
WindowSum of_first(WindowSum sum, dnnl::memory::dim samples);

std::string layout_text(const dnnl::memory::desc& desc);  // type and layout, in a line; equal layouts have equal texts
std::string to_text(const WindowSum& sum);                // for messages: layer, pass, type and extents
// All that an implementation may depend on, in a line. REQUIRES: no layout is "any".
std::string key_of(const WindowSum& sum);

}  // namespace millrace::cpu
