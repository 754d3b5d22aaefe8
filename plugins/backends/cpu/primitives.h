// The seam to oneDNN's versions. 2 describes a primitive by an operation descriptor and shows the fields of a memory::desc, 3
// does neither. This header and its source alone know which one is there; everything else uses what both have.
//
// Errors: dnnl::error where oneDNN cannot compute what is described.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <vector>

namespace millrace::cpu {

// The processor, as oneDNN sees it. Every engine of this plugin comes from here: the first one makes it safe for threads to
// describe reorders beside each other, which oneDNN 2.6 alone does not.
dnnl::engine processor();

// ---- Primitives ----
// Scratch memory comes from the caller. Nothing is fused into a primitive: oneDNN's ReLU makes 0 of NaN (maxps of x86), and a
// result that is not finite must be seen.
dnnl::primitive_attr attributes();

// The primitive of a description. Throws Error(device) where oneDNN crashes as it makes it.
dnnl::primitive make_primitive(const dnnl::primitive_desc_base& desc);

// The primitive desc of a forward Primitive, such as dnnl::convolution_forward. `arguments`: those of its constructor in oneDNN
// 3, without engine and attributes; a zero bias is none.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const dnnl::engine& engine, const dnnl::primitive_attr& how,
                                            const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, arguments..., how);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), how, engine);
#endif
}

// The same for a backward Primitive. `forward`: what it is the backward pass of.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc describe_backward(const dnnl::engine& engine, const Forward& forward,
                                                     const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, arguments..., forward, attributes());
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes(), engine, forward);
#endif
}

// Whether oneDNN would compute a convolution by its reference loops or through a copy of all windows.
bool is_slow_convolution(const dnnl::primitive_desc_base& desc);

// ---- Layouts ----
dnnl::memory::dims dims_of(const dnnl::memory::desc& desc);
dnnl::memory::data_type type_of(const dnnl::memory::desc& desc);
// The same tensor in a layout that oneDNN may choose.
dnnl::memory::desc in_any_layout(const dnnl::memory::desc& desc);
dnnl::memory::desc in_any_layout(const dnnl::memory::desc& desc, dnnl::memory::data_type type);
// The same tensor with every element in the same place, of another type; nothing when the layout has no name for that (oneDNN 3).
std::optional<dnnl::memory::desc> in_type(const dnnl::memory::desc& desc, dnnl::memory::data_type type);

// Where elements lie. REQUIRES: a desc without format_tag::any.
struct Strides {
  dnnl::memory::dims padded;   // extents in memory
  dnnl::memory::dims strides;  // in elements, between the blocks of a dimension that has them
  bool blocked = false;        // some dimension is cut into blocks, which lie innermost
};
Strides strides_of(const dnnl::memory::desc& desc);
// By dimension, where its indices lie, those of the padding too: an element is at the sum of one of each, in elements. Empty
// where a layout is not made of strides and blocks.
std::vector<std::vector<std::int64_t>> offsets_of(const dnnl::memory::desc& desc);

}  // namespace millrace::cpu
