// Convolution through oneDNN: direct, or Winograd's algorithm where that is known to be faster.
#include "weighted.h"

namespace millrace::cpu {
namespace {

using dnnl::algorithm;
using dnnl::memory;

class Convolution final : public Weighted {
 public:
  Convolution(Workshop& workshop, const Node& node)
      : Weighted(workshop, node), conv_(layer().as<ConvAttributes>()),
        strides_{conv_.stride.height, conv_.stride.width},
        dilates_{conv_.dilation.height - 1, conv_.dilation.width - 1},
        before_{conv_.padding.top, conv_.padding.left},
        after_{conv_.padding.bottom, conv_.padding.right} {}

 protected:
  PrimitiveDesc make_forward(const Desc& source, const Desc& weights, const Desc& destination, bool relu) override {
    using Kind = dnnl::prop_kind;
    const Kind kind = training() ? Kind::forward_training : Kind::forward_inference;
    const Desc bias({destination.dims()[1]}, memory::data_type::f32, memory::format_tag::any);
    const dnnl::convolution_forward::desc desc =
        has_bias() ? dnnl::convolution_forward::desc(kind, algorithm::convolution_direct, source, weights, bias, destination,
                                                     strides_, dilates_, before_, after_)
                   : dnnl::convolution_forward::desc(kind, algorithm::convolution_direct, source, weights, destination, strides_,
                                                     dilates_, before_, after_);
    forward_ = dnnl::convolution_forward::primitive_desc(desc, attributes(relu), workshop_.engine);
    return forward_;
  }

  PrimitiveDesc make_backward_data(const Desc& d_source, const Desc& weights, const Desc& d_destination) override {
    const dnnl::convolution_backward_data::desc desc(algorithm::convolution_direct, d_source, weights, d_destination, strides_,
                                                     dilates_, before_, after_);
    return dnnl::convolution_backward_data::primitive_desc(desc, attributes(), workshop_.engine, forward_);
  }

  PrimitiveDesc make_backward_weights(const Desc& source, const Desc& d_weights, const Desc& d_destination, bool bias) override {
    const Desc d_bias({d_destination.dims()[1]}, memory::data_type::f32, memory::format_tag::any);
    using Descriptor = dnnl::convolution_backward_weights::desc;
    const Descriptor desc = bias ? Descriptor(algorithm::convolution_direct, source, d_weights, d_bias, d_destination, strides_,
                                              dilates_, before_, after_)
                                 : Descriptor(algorithm::convolution_direct, source, d_weights, d_destination, strides_, dilates_,
                                              before_, after_);
    return dnnl::convolution_backward_weights::primitive_desc(desc, attributes(), workshop_.engine, forward_);
  }

  Desc canonical_weights() const override {
    const Shape& shape = workshop_.parameters.parameter(layer().parameters[0]).shape;  // (out, in / groups, height, width)
    const std::int64_t groups = conv_.groups;
    if (groups == 1) return {{shape[0], shape[1], shape[2], shape[3]}, memory::data_type::f32, memory::format_tag::oihw};
    return {{groups, shape[0] / groups, shape[1], shape[2], shape[3]}, memory::data_type::f32, memory::format_tag::goihw};
  }

  Desc source_desc(const MapSpec& input) const override { return input.desc(); }
  Desc destination_desc(const MapSpec& output) const override { return output.desc(); }
  DataType output_type(const Planner&) const override { return workshop_.type(); }
  bool is_slow(const std::string& implementation) const override {
    return implementation.find("ref") != std::string::npos || implementation.find("gemm:") != std::string::npos;
  }

 private:
  const ConvAttributes& conv_;
  memory::dims strides_, dilates_, before_, after_;
  dnnl::convolution_forward::primitive_desc forward_;  // oneDNN wants it when it makes the backward ones
};

}  // namespace

std::unique_ptr<Operation> make_convolution(Workshop& workshop, const Node& node) {
  return std::make_unique<Convolution>(workshop, node);
}

}  // namespace millrace::cpu
