#include "primitives.h"

#include "library_fault.h"
#include "millrace/error.h"

namespace millrace::cpu {

using dnnl::memory;

namespace {

// oneDNN 2.6 keeps its reorders in a std::map by the two types and accesses it with operator[] without a lock: when threads first
// request missing types, they insert concurrently, and crash, find nothing or hang. After every pair was requested once, nothing
// is inserted any more.
[[maybe_unused]] bool ask_for_every_reorder(const dnnl::engine& engine) {
  using Type = memory::data_type;
  constexpr Type kTypes[] = {Type::f32, Type::bf16, Type::f16, Type::s32, Type::s8, Type::u8};
  for (const Type from : kTypes) {
    for (const Type to : kTypes) {
      try {
        const memory::desc in({1}, from, memory::format_tag::a), out({1}, to, memory::format_tag::a);
        dnnl::reorder::primitive_desc(engine, in, engine, out);
      } catch (const dnnl::error&) {  // not supported by this processor
      }
    }
  }
  return true;
}

}  // namespace

dnnl::engine processor() {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
#if DNNL_VERSION_MAJOR < 3
  static const bool asked = ask_for_every_reorder(engine);
  static_cast<void>(asked);
#endif
  return engine;
}

dnnl::primitive make_primitive(const dnnl::primitive_desc_base& desc) {
  dnnl::primitive made;
  const std::string fault = library_fault([&] { made = dnnl::primitive(desc.get()); });
  if (!fault.empty()) fail(ErrorKind::device, "oneDNN {} while creating its kernel '{}'", fault, desc.impl_info_str());
  return made;
}

dnnl::primitive_attr attributes(const memory::desc& added, bool relu) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops after;
  if (!added.is_zero()) after.append_binary(dnnl::algorithm::binary_add, added);
#if DNNL_VERSION_MAJOR >= 3
  if (relu) after.append_eltwise(dnnl::algorithm::eltwise_relu, 0x1p-100F, 0);
#else
  if (relu) after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0x1p-100F, 0);
#endif
  if (after.len() > 0) attributes.set_post_ops(after);
  return attributes;
}

bool is_slow_convolution(const dnnl::primitive_desc_base& desc) {
  const std::string implementation = desc.impl_info_str();
  return implementation.find("ref") != std::string::npos || implementation.find("gemm:") != std::string::npos;
}

void rearrange(const memory::desc& from, const float* source, const memory::desc& to, void* destination,
               const dnnl::engine& engine) {
  memory in(from, engine, const_cast<float*>(source));  // NOLINT: oneDNN has no const memory
  memory out(to, engine, destination);
  dnnl::stream stream(engine);
  dnnl::reorder(in, out).execute(stream, in, out);
  stream.wait();
}

memory::desc in_any_layout(const memory::desc& desc) { return in_any_layout(desc, type_of(desc)); }

memory::desc in_any_layout(const memory::desc& desc, memory::data_type type) {
  return {dims_of(desc), type, memory::format_tag::any};
}

namespace {

struct Blocks {
  memory::dims sizes, dimensions;  // outermost first
  memory::dim first = 0;           // offset of the first element
};

std::vector<std::vector<std::int64_t>> offsets_in(const Strides& outer, const Blocks& blocks) {
  std::vector<std::vector<std::int64_t>> offsets(outer.padded.size());
  for (std::size_t d = 0; d < offsets.size(); ++d) {
    for (memory::dim index = 0; index < outer.padded[d]; ++index) {
      memory::dim rest = index, offset = d == 0 ? blocks.first : 0, stride = 1;
      for (std::size_t b = blocks.sizes.size(); b-- > 0; stride *= blocks.sizes[b]) {
        if (blocks.dimensions[b] != static_cast<memory::dim>(d)) continue;
        offset += rest % blocks.sizes[b] * stride;
        rest /= blocks.sizes[b];
      }
      offsets[d].push_back(offset + rest * outer.strides[d]);
    }
  }
  return offsets;
}

}  // namespace

#if DNNL_VERSION_MAJOR >= 3

memory::dims dims_of(const memory::desc& desc) { return desc.get_dims(); }

memory::data_type type_of(const memory::desc& desc) { return desc.get_data_type(); }

// oneDNN 3 hides the fields of a desc, so this tries the layouts that have a name.
std::optional<memory::desc> in_type(const memory::desc& desc, memory::data_type type) {
  if (type == type_of(desc)) return desc;
  for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; ++tag) {
    const auto layout = static_cast<memory::format_tag>(tag);
    const memory::desc named(desc.get_dims(), desc.get_data_type(), layout, /*allow_empty=*/true);
    if (named.get(true) != nullptr && named == desc) return memory::desc(desc.get_dims(), type, layout);
  }
  return std::nullopt;
}

Strides strides_of(const memory::desc& desc) { return {desc.get_padded_dims(), desc.get_strides(), desc.get_inner_nblks() > 0}; }

std::vector<std::vector<std::int64_t>> offsets_of(const memory::desc& desc) {
  if (desc.get_format_kind() != memory::format_kind::blocked) return {};
  return offsets_in(strides_of(desc), {desc.get_inner_blks(), desc.get_inner_idxs(), desc.get_submemory_offset()});
}

#else

memory::dims dims_of(const memory::desc& desc) { return desc.dims(); }

memory::data_type type_of(const memory::desc& desc) { return desc.data_type(); }

std::optional<memory::desc> in_type(const memory::desc& desc, memory::data_type type) {
  memory::desc changed = desc;
  changed.data.data_type = memory::convert_to_c(type);
  return changed;
}

Strides strides_of(const memory::desc& desc) {
  const auto& blocking = desc.data.format_desc.blocking;
  return {{desc.data.padded_dims, desc.data.padded_dims + desc.data.ndims},
          {blocking.strides, blocking.strides + desc.data.ndims},
          blocking.inner_nblks > 0};
}

std::vector<std::vector<std::int64_t>> offsets_of(const memory::desc& desc) {
  if (desc.data.format_kind != dnnl_blocked) return {};
  const auto& blocking = desc.data.format_desc.blocking;
  return offsets_in(strides_of(desc), {{blocking.inner_blks, blocking.inner_blks + blocking.inner_nblks},
                                       {blocking.inner_idxs, blocking.inner_idxs + blocking.inner_nblks},
                                       desc.data.offset0});
}

#endif

}  // namespace millrace::cpu
