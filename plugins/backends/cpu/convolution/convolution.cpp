// Convolution, through oneDNN unless own_convolution.h has another way: direct, or, where faster, in float32 by Winograd's
// algorithm F(4 x 4, 3 x 3) (Lavin and Gray, arXiv 1509.09308), which needs a quarter of the multiplications and rounds a little
// more. Transposed convolution through oneDNN's deconvolution, which is fast thanks to the data gradients of its convolutions.
#include "convolution/own_convolution.h"
#include "primitives.h"

namespace millrace::cpu {
namespace {

using dnnl::algorithm;
using dnnl::memory;

// Common base of a convolution and a transposed one.
class Windowed : public Weighted {
 public:
  Windowed(CompileContext& compile_context, const Node& node)
      : Weighted(compile_context, node),
        conv_(layer().as<ConvAttributes>()),
        strides_{conv_.stride.height, conv_.stride.width},
        dilates_{conv_.dilation.height - 1, conv_.dilation.width - 1},
        before_{conv_.padding.top, conv_.padding.left},
        after_{conv_.padding.bottom, conv_.padding.right} {}

 protected:
  Desc source_desc(const MapSpec& input) const final { return input.desc(); }
  Desc destination_desc(const MapSpec& output) const final { return output.desc(); }
  DataType output_type(const Planner&) const final { return compile_context_.type(); }
  WindowSum windows(WindowSum::Layer kind, algorithm how) const {
    return {.layer = kind, .how = how, .strides = strides_, .dilates = dilates_, .before = before_, .after = after_};
  }
  bool is_slow(const PrimitiveDesc& chosen) const final { return is_slow_convolution(chosen); }
  const Shape& weights_shape() const { return parameter_shape(0); }

  const ConvAttributes& conv_;

 private:
  memory::dims strides_, dilates_, before_, after_;
};

class Convolution final : public Windowed {
 public:
  using Windowed::Windowed;

 protected:
  WindowSum sum() const override { return windows(WindowSum::Layer::convolution, algorithm::convolution_direct); }

  PrimitiveDesc choose(WindowSum& sum) const override {
    if (winograd_pays()) {
      constexpr std::size_t kMaxScratch = std::size_t{1} << 30;  // bytes; may have to hold all transformed tiles at once
      try {
        WindowSum winograd = sum;
        winograd.how = algorithm::convolution_winograd;
        PrimitiveDesc chosen = Weighted::choose(winograd);
        if (chosen.scratchpad_desc().get_size() <= kMaxScratch) {
          sum = winograd;
          return chosen;
        }
      } catch (const dnnl::error&) {  // not for these layouts, or not on this processor: Winograd requires AVX-512
      }
    }
    return Weighted::choose(sum);
  }

  Desc canonical_weights() const override {
    const Shape& shape = weights_shape();  // (out, in / groups, height, width)
    const std::int64_t groups = conv_.groups;
    if (groups == 1) return {{shape[0], shape[1], shape[2], shape[3]}, memory::data_type::f32, memory::format_tag::oihw};
    return {{groups, shape[0] / groups, shape[1], shape[2], shape[3]}, memory::data_type::f32, memory::format_tag::goihw};
  }

 private:
  // True where Winograd's algorithm was measured to be much faster: its tiles of 4 x 4 outputs are mostly full, and there is
  // enough work. It rounds more, so smaller sums stay direct.
  bool winograd_pays() const {
    const Shape& out = layer().output;
    const std::int64_t tiles = (out[1] + 3) / 4 * ((out[2] + 3) / 4);
    constexpr double kLeast = 2e9;  // multiply-adds
    const auto is = [](const Size& size, std::int64_t extent) { return size.height == extent && size.width == extent; };
    const bool fits = is(conv_.kernel, 3) && is(conv_.stride, 1) && is(conv_.dilation, 1) && conv_.groups == 1;
    return fits && training() && compile_context_.type() == DataType::f32 && layer().input_shapes[0][0] >= 16 && out[0] >= 16 &&
           2 * out[1] * out[2] >= 16 * tiles &&
           static_cast<double>(layer().multiply_adds) * static_cast<double>(samples()) >= kLeast;
  }
};

// oneDNN also names its weights (out, in / groups, height, width); ours are stored in the order (in, out / groups, height,
// width).
class TransposedConvolution final : public Windowed {
 public:
  using Windowed::Windowed;

 protected:
  WindowSum sum() const override { return windows(WindowSum::Layer::transposed_convolution, algorithm::deconvolution_direct); }

  Desc canonical_weights() const override {
    const Shape& shape = weights_shape();
    const std::int64_t groups = conv_.groups;
    if (groups == 1) return {{shape[1], shape[0], shape[2], shape[3]}, memory::data_type::f32, memory::format_tag::iohw};
    return {{groups, shape[1], shape[0] / groups, shape[2], shape[3]}, memory::data_type::f32, memory::format_tag::giohw};
  }

  // Otherwise oneDNN keeps another float32 copy of the result, and sums the bias gradient in float32, one value after another.
  bool finishes_apart() const override { return true; }
};

}  // namespace

std::unique_ptr<Operation> make_convolution(CompileContext& compile_context, const Node& node) {
  if (compile_context.layer(node.layer).as<ConvAttributes>().transposed)
    return std::make_unique<TransposedConvolution>(compile_context, node);
  if (takes_own_depthwise(compile_context, node)) return make_own_depthwise(compile_context, node);
  if (takes_winograd(compile_context, node)) return make_winograd(compile_context, node);
  if (takes_phases(compile_context, node)) return make_phased(compile_context, node);
  if (takes_side_by_side(compile_context, node)) return make_side_by_side(compile_context, node);
  return std::make_unique<Convolution>(compile_context, node);
}

}  // namespace millrace::cpu
