// Dilated convolution where oneDNN has only its reference implementation, which takes minutes per step: windows that reach far
// over the edge, as in DeepLab. Pixels interact only if their rows and columns are equal modulo the dilation. Each such phase is
// copied to a separate image, on which the convolution is dense.
#include "kernels/rearrange.h"
#include "primitives.h"
#include "rearranged.h"

namespace millrace::cpu {
namespace {

using dnnl::memory;

class Phased final : public RearrangedConvolution {
 public:
  using RearrangedConvolution::RearrangedConvolution;

 protected:
  const char* name() const override { return "by phases"; }
  Arrangement arrange(const MapSpec& from, const MapSpec& to) override {
    const MapSpec x = phases_of(from), y = phases_of(to);
    const memory::dims before = {conv().padding.top / rows(), conv().padding.left / columns()};
    const memory::dims after = {y.height - x.height - before[0] + conv().kernel.height - 1,
                                y.width - x.width - before[1] + conv().kernel.width - 1};
    return {x, y, {1, 1}, before, after};
  }
  void to_arranged(const Map& map, std::int64_t, const Map& phases) const override { to_phases(map, rows(), columns(), phases); }
  void from_arranged(const Map& phases, std::int64_t, const Map& map) const override {
    from_phases(phases, rows(), columns(), map);
  }

 private:
  std::int64_t rows() const { return conv().dilation.height; }
  std::int64_t columns() const { return conv().dilation.width; }

  // The spec of all phases of a map.
  MapSpec phases_of(const MapSpec& spec) const {
    MapSpec phases = spec;
    phases.n = spec.n * rows() * columns();
    phases.height = (spec.height + rows() - 1) / rows();
    phases.width = (spec.width + columns() - 1) / columns();
    return phases;
  }
};

}  // namespace

bool takes_phases(const CompileContext& compile_context, const Node& node) {
  const Layer& layer = compile_context.layer(node.layer);
  const auto& conv = layer.as<ConvAttributes>();
  const bool dilated = conv.dilation.height > 1 || conv.dilation.width > 1;
  const bool fits = !conv.transposed && conv.groups == 1 && conv.stride.height == 1 && conv.stride.width == 1 &&
                    conv.padding.top % conv.dilation.height == 0 && conv.padding.left % conv.dilation.width == 0;
  if (!dilated || !fits || node.inputs.front() == Network::kInput) return false;
  const memory::desc x =
      in_any_layout(MapSpec::of(layer.input_shapes[0], 1, compile_context.type(), compile_context.layout).desc());
  const memory::desc y = in_any_layout(MapSpec::of(layer.output, 1, compile_context.type(), compile_context.layout).desc());
  const memory::dims extents = {conv.out, layer.input_shapes[0][0], conv.kernel.height, conv.kernel.width};
  const memory::desc weights(extents, to_dnnl(compile_context.type()), memory::format_tag::any), none;
  const memory::desc d_weights(extents, memory::data_type::f32, memory::format_tag::any);
  const memory::dims strides = {1, 1}, dilates = {conv.dilation.height - 1, conv.dilation.width - 1};
  const memory::dims before = {conv.padding.top, conv.padding.left}, after = {conv.padding.bottom, conv.padding.right};
  constexpr auto how = dnnl::algorithm::convolution_direct;
  try {
    const auto forward =
        describe<dnnl::convolution_forward>(compile_context.engine, attributes(), dnnl::prop_kind::forward_training, how, x,
                                            weights, none, y, strides, dilates, before, after);
    return is_slow_convolution(forward) ||
           is_slow_convolution(describe_backward<dnnl::convolution_backward_data>(compile_context.engine, forward, how, x,
                                                                                  weights, y, strides, dilates, before, after)) ||
           is_slow_convolution(describe_backward<dnnl::convolution_backward_weights>(
               compile_context.engine, forward, how, x, d_weights, none, y, strides, dilates, before, after));
  } catch (const dnnl::error&) {  // reported when it is computed
    return false;
  }
}

std::unique_ptr<Operation> make_phased(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Phased>(compile_context, node);
}

}  // namespace millrace::cpu
