// Hides the differences of oneDNN's versions. Version 2 describes a primitive by an operation descriptor and exposes the fields
// of a memory::desc; 3 does neither. Only this header and its source depend on the version; all other code uses the common
// subset.
//
// Errors: dnnl::error if oneDNN cannot compute what is described.
#pragma once

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <vector>

namespace millrace::cpu {

// oneDNN's engine of the processor. Every engine of this plugin comes from here: the first call makes it safe for threads to
// describe reorders concurrently, which oneDNN 2.6 itself does not ensure.
dnnl::engine processor();

// ---- Primitives ----
// Scratch memory comes from the caller. `added`: a tensor like the result, which is added to it; zero: none. `relu`: after that.
//
// oneDNN's ReLU turns NaN into 0 (maxps of x86), which would hide non-finite results. Its leaky ReLU does not, so this one
// multiplies negative values by 2^-100: next to any other value they count as 0. -inf stays -inf.
dnnl::primitive_attr attributes(const dnnl::memory::desc& added = {}, bool relu = false);
inline constexpr int kAddedArgument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;

// The primitive of a description. Throws Error(device) if oneDNN crashes while creating it.
dnnl::primitive make_primitive(const dnnl::primitive_desc_base& desc);

#if DNNL_VERSION_MAJOR >= 3
template <class Primitive>
using Description = typename Primitive::primitive_desc;
#else
// oneDNN 2 reads the operation again in next_impl(), so it must live until then.
template <class Primitive>
struct Description : Primitive::primitive_desc {
  std::shared_ptr<const typename Primitive::desc> operation;
};
#endif

// The primitive desc of a forward Primitive, such as dnnl::convolution_forward. `arguments`: those of its constructor in oneDNN
// 3, without engine and attributes; a zero bias means none.
template <class Primitive, class... Arguments>
Description<Primitive> describe(const dnnl::engine& engine, const dnnl::primitive_attr& how, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return Description<Primitive>(engine, arguments..., how);
#else
  const auto operation = std::make_shared<const typename Primitive::desc>(arguments...);
  return {{*operation, how, engine}, operation};
#endif
}

// The same for a backward Primitive. `forward`: its forward pass.
template <class Primitive, class Forward, class... Arguments>
Description<Primitive> describe_backward(const dnnl::engine& engine, const Forward& forward, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return Description<Primitive>(engine, arguments..., forward, attributes());
#else
  const auto operation = std::make_shared<const typename Primitive::desc>(arguments...);
  return {{*operation, attributes(), engine, forward}, operation};
#endif
}

// True if oneDNN would compute a convolution by its reference loops or through a copy of all windows.
bool is_slow_convolution(const dnnl::primitive_desc_base& desc);

// ---- Layouts ----
dnnl::memory::dims dims_of(const dnnl::memory::desc& desc);
dnnl::memory::data_type type_of(const dnnl::memory::desc& desc);
// The same tensor in a layout of oneDNN's choice.
dnnl::memory::desc in_any_layout(const dnnl::memory::desc& desc);
dnnl::memory::desc in_any_layout(const dnnl::memory::desc& desc, dnnl::memory::data_type type);
// The same tensor and element order in another type; empty if the layout has no name for that (oneDNN 3).
std::optional<dnnl::memory::desc> in_type(const dnnl::memory::desc& desc, dnnl::memory::data_type type);

// Copies a tensor from one layout and type to another.
void rearrange(const dnnl::memory::desc& from, const float* source, const dnnl::memory::desc& to, void* destination,
               const dnnl::engine& engine);

// Element positions. REQUIRES: a desc without format_tag::any.
struct Strides {
  dnnl::memory::dims padded;   // extents in memory
  dnnl::memory::dims strides;  // in elements; between blocks for a blocked dimension
  bool blocked = false;        // some dimension is split into blocks, which are innermost
};
Strides strides_of(const dnnl::memory::desc& desc);
// By dimension, the offset of each index, including padding: an element is at the sum of one offset per dimension, in elements.
// Empty if a layout does not consist of strides and blocks.
std::vector<std::vector<std::int64_t>> offsets_of(const dnnl::memory::desc& desc);

}  // namespace millrace::cpu
