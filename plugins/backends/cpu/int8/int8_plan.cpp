#include "int8/int8_plan.h"

#include <algorithm>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/map.h"

namespace millrace::cpu {
namespace {

const Layer& layer_of(const Network& network, int index) { return network.layers[static_cast<std::size_t>(index)]; }

bool is_quantise(const Network& network, const Node& node) { return layer_of(network, node.output).op == kQuantise; }

// Whether a node computes integers from integers, if its result is rounded to `grid`.
bool computes_integers(const Network& network, const Node& node, const QuantiseAttributes& grid) {
  const Layer& layer = layer_of(network, node.layer);
  if (is_int8(layer)) return node.activation != Activation::gelu;
  const auto on_grid = [&](LayerPort input) { return grid_of(network, input) != nullptr; };
  if (node.kind == Node::Kind::add) return node.inputs.size() == 2 && std::ranges::all_of(node.inputs, on_grid);
  if (layer.op != "max_pool" || node.kind != Node::Kind::pool || layer.output_count() != 1) return false;
  const QuantiseAttributes* const from = grid_of(network, node.inputs[0]);
  return from != nullptr && *from == grid;
}

}  // namespace

bool multiplies_bytes() {
  static const bool known = [] {
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto has = [&](dnnl::cpu_isa other) { return (isa & static_cast<unsigned>(other)) == static_cast<unsigned>(other); };
    return has(dnnl::cpu_isa::avx512_core_vnni) || has(dnnl::cpu_isa::avx2_vnni);
  }();
  return known;
}

std::vector<Node> with_integers(const Network& network, std::vector<Node> nodes, const std::vector<LayerPort>& outputs) {
  if (!multiplies_bytes()) return nodes;
  std::map<LayerPort, int> readers;
  for (const Node& node : nodes) {
    for (const LayerPort input : node.inputs) ++readers[input];
  }
  for (const LayerPort output : outputs) ++readers[output];
  // The node before, if nothing else reads its only output.
  const auto before = [&](const Node& node) {
    const LayerPort input = node.inputs[0];
    const auto found = std::ranges::find_if(nodes, [&](const Node& each) { return LayerPort(each.output) == input; });
    return found != nodes.end() && readers[input] == 1 ? found : nodes.end();
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!is_quantise(network, nodes[i]) || nodes[i].layer != nodes[i].output) continue;
    const QuantiseAttributes& grid = *grid_of(network, nodes[i].output);
    auto first = before(nodes[i]);
    if (first == nodes.end()) continue;
    auto relu = nodes.end();
    if (first->kind == Node::Kind::activate && first->activation == Activation::relu) {
      relu = first;
      first = before(*relu);
      if (first == nodes.end() || first->kind != Node::Kind::add) continue;
    }
    if (!computes_integers(network, *first, grid)) continue;
    Node joined = *first;
    if (relu != nodes.end()) joined.activation = Activation::relu;
    joined.output = nodes[i].output;
    nodes[i] = std::move(joined);  // in the place of the last one
    if (relu != nodes.end()) relu->output = -1;
    first->output = -1;
  }
  std::erase_if(nodes, [](const Node& node) { return node.output < 0; });
  return nodes;
}

Int8Plan::Int8Plan(const Network& network, const std::vector<Node>& nodes, const std::vector<LayerPort>& outputs)
    : network_(network), floats_(outputs.begin(), outputs.end()) {
  for (const Node& node : nodes) {
    const QuantiseAttributes* const grid = grid_of(network, node.output);
    const bool reads_integers = is_int8(layer_of(network, node.layer)) ||
                                (grid != nullptr && node.layer != node.output && computes_integers(network, node, *grid));
    if (!reads_integers) floats_.insert(node.inputs.begin(), node.inputs.end());
  }
}

void Int8Plan::plan(Planner& planner, LayerPort value, const MapSpec& spec) {
  tensors_[value] = planner.tensor(static_cast<std::size_t>(spec.n * spec.features()));
}

Int8Values Int8Plan::bind(const Binding& binding, LayerPort value) const {
  const QuantiseAttributes& grid = *grid_of(network_, value);
  return {binding.at(tensors_.at(value)), grid.scale, grid.is_signed};
}

// ---- Kernels: AVX2 is there where VNNI is ----
namespace {


template <class Integer>
__attribute__((target("avx2"))) void round_row(const float* from, float scale, Integer* to, std::int64_t count) {
  constexpr float kLeast = std::numeric_limits<Integer>::min(), kMost = std::numeric_limits<Integer>::max();
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float inside = std::min(std::max(from[i] / scale, kLeast), kMost);
    to[i] = static_cast<Integer>(static_cast<std::int32_t>((inside + kNearest) - kNearest));
  }
}

template <class Integer>
__attribute__((target("avx2"))) void widen_row(const Integer* from, float scale, float* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = scale * static_cast<float>(from[i]);
}

template <class A, class B, class Y>
__attribute__((target("avx2"))) void add_row(const A* a, float of_a, const B* b, float of_b, float floor, Y* y, float of_y,
                                             std::int64_t count) {
  constexpr float kLeast = std::numeric_limits<Y>::min(), kMost = std::numeric_limits<Y>::max();
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float sum = std::max(of_a * static_cast<float>(a[i]) + of_b * static_cast<float>(b[i]), floor);
    const float inside = std::min(std::max(sum / of_y, kLeast), kMost);
    y[i] = static_cast<Y>(static_cast<std::int32_t>((inside + kNearest) - kNearest));
  }
}

// Calls call(pointer of the right type).
template <class Call>
void with_integers_of(const Int8Values& values, const Call& call) {
  if (values.is_signed)
    call(static_cast<std::int8_t*>(values.data));
  else
    call(static_cast<std::uint8_t*>(values.data));
}

// Calls call(floats, integers, count) for the parts of a map and the same part of integers: (floats' offset, integers' offset).
template <class Call>
void for_each_part(const Map& map, const Call& call) {
  if (!map.padded) {  // channels last: without gaps
    constexpr std::int64_t kPart = 1 << 14;
    const std::int64_t all = map.elements();
#pragma omp parallel for schedule(static) if (all > kPart)
    for (std::int64_t begin = 0; begin < all; begin += kPart) call(begin, begin, std::min(kPart, all - begin));
    return;
  }
  const std::int64_t rows = map.n * map.height;
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t block = 0; block < map.blocks(); ++block) {
      const std::int64_t n = row / map.height, first = row % map.height * map.width, channel = block * Map::kLanes;
      const std::int64_t count = std::min(Map::kLanes, map.channels - channel);
      const std::int64_t floats = n * map.stride_n + block * map.stride_block,
                         integers = n * map.pixels() * map.channels + channel;
      for (std::int64_t pixel = first; pixel < first + map.width; ++pixel)
        call(floats + pixel * map.stride_pixel, integers + pixel * map.channels, count);
    }
  }
}

}  // namespace

void to_integers(const Map& from, const Int8Values& to) {
  const auto* const floats = static_cast<const float*>(from.data);
  with_integers_of(to, [&](auto* integers) {
    for_each_part(from, [&](std::int64_t at, std::int64_t to_at, std::int64_t count) {
      round_row(floats + at, to.scale, integers + to_at, count);
    });
  });
}

void from_integers(const Int8Values& from, const Map& to) {
  auto* const floats = static_cast<float*>(to.data);
  with_integers_of(from, [&](const auto* integers) {
    for_each_part(to, [&](std::int64_t to_at, std::int64_t at, std::int64_t count) {
      widen_row(integers + at, from.scale, floats + to_at, count);
      // Padding follows the last channels.
      if (to.padded && count < Map::kLanes) std::fill(floats + to_at + count, floats + to_at + Map::kLanes, 0.0F);
    });
  });
}

void add_integers(const Int8Values& a, const Int8Values& b, bool relu, const Int8Values& y, std::int64_t count) {
  constexpr std::int64_t kPart = 1 << 14;
  const float floor = relu ? 0 : std::numeric_limits<float>::lowest();
  with_integers_of(a, [&](const auto* of_a) {
    with_integers_of(b, [&](const auto* of_b) {
      with_integers_of(y, [&](auto* of_y) {
#pragma omp parallel for schedule(static) if (count > kPart)
        for (std::int64_t i = 0; i < count; i += kPart)
          add_row(of_a + i, a.scale, of_b + i, b.scale, floor, of_y + i, y.scale, std::min(kPart, count - i));
      });
    });
  });
}

}  // namespace millrace::cpu
