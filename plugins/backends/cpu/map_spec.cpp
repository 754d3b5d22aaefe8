#include "map_spec.h"

namespace millrace::cpu {

MapSpec MapSpec::of(const Shape& shape, std::int64_t batch, DataType type, Layout layout) {
  MapSpec spec{batch, shape[0], 1, 1, type, Layout::channels_last};
  if (shape.rank() == 3) {
    spec.height = shape[1];
    spec.width = shape[2];
    spec.layout = layout;
  }
  return spec;
}

std::size_t MapSpec::bytes() const {
  const std::int64_t held = layout == Layout::blocked ? (channels + Map::kLanes - 1) / Map::kLanes * Map::kLanes : channels;
  return static_cast<std::size_t>(n * held * height * width) * size_of(type);
}

Map MapSpec::map(void* data) const {
  return layout == Layout::blocked ? Map::blocked(data, type, n, channels, height, width)
                                   : Map::channels_last(data, type, n, channels, height, width);
}

dnnl::memory::desc MapSpec::desc() const {
  using Tag = dnnl::memory::format_tag;
  return {{n, channels, height, width}, to_dnnl(type), layout == Layout::blocked ? Tag::nChw16c : Tag::nhwc};
}

dnnl::memory::desc MapSpec::rows_desc() const { return {{n, channels}, to_dnnl(type), dnnl::memory::format_tag::nc}; }

dnnl::memory::data_type to_dnnl(DataType type) {
  switch (type) {
    case DataType::u8: return dnnl::memory::data_type::u8;
    case DataType::i32: return dnnl::memory::data_type::s32;
    case DataType::f32: return dnnl::memory::data_type::f32;
    case DataType::bf16: return dnnl::memory::data_type::bf16;
    case DataType::u16: break;  // not used in networks
  }
  return dnnl::memory::data_type::undef;
}

TensorView view_of(const Map& map) {
  return TensorView{.data = map.data,
                    .stride_n = map.stride_n,
                    .stride_pixel = map.stride_pixel,
                    .stride_block = map.stride_block,
                    .padded = map.padded ? map.blocks() * Map::kLanes : map.channels,
                    .type = map.type};
}

}  // namespace millrace::cpu
