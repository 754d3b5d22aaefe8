// A request to oneDNN for a convolution, a transposed one, a fully connected layer or a matrix product, as a value: so that it
// can be repeated for fewer samples, or for another implementation.
#pragma once

#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

namespace millrace::cpu {

struct WindowSum {
  using Desc = dnnl::memory::desc;
  enum class Layer : std::uint8_t { convolution, transposed_convolution, linear, product };  // product has no gradients
  enum class Pass : std::uint8_t { forward, data, weights };  // the latter two: gradients by the source, by the weights

  Layer layer = Layer::convolution;
  Pass pass = Pass::forward;
  dnnl::prop_kind forward_kind = dnnl::prop_kind::forward_training;
  dnnl::algorithm how = dnnl::algorithm::undef;
  dnnl::memory::dims strides = {}, dilates = {}, before = {}, after = {};  // for windows; dilates in oneDNN's convention, from 0
  // The pass's operands, one of which is its result; in a backward pass, `destination` is its gradient. oneDNN chooses the layout
  // of "any" operands. A zero bias means none. Those of a product are (rows, inner), (inner, columns) and (rows, columns).
  Desc source = {}, weights = {}, bias = {}, destination = {};
  // Forward only: see attributes().
  Desc added = {};
  bool relu = false;
};

// Selects among oneDNN's implementations.
using Pick = std::function<bool(const dnnl::primitive_desc_base&)>;

// The first implementation that `pick` accepts, or the first of all without it. Throws dnnl::error if there is none.
dnnl::primitive_desc_base describe(const dnnl::engine& engine, const WindowSum& sum, const Pick& pick = {});

// The same with the layouts chosen for the primitive.
WindowSum as_chosen(WindowSum sum, const dnnl::primitive_desc_base& chosen);
// ... and for fewer samples, stored like the first ones. REQUIRES: no layout is "any".
WindowSum of_first(WindowSum sum, dnnl::memory::dim samples);

std::string layout_text(const dnnl::memory::desc& desc);  // type and layout, in one line; equal layouts have equal texts
std::string to_text(const WindowSum& sum);                // for messages: layer, pass, type and extents
// All that an implementation may depend on, in one line. REQUIRES: no layout is "any".
std::string key_of(const WindowSum& sum);

}  // namespace millrace::cpu
