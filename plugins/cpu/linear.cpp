// Fully connected layers through oneDNN. A map is read as it lies: the weights are taken as (out, C, H, W).
#include "weighted.h"

namespace millrace::cpu {
namespace {

using dnnl::memory;

class Linear final : public Weighted {
 public:
  using Weighted::Weighted;

 protected:
  PrimitiveDesc make_forward(const Desc& source, const Desc& weights, const Desc& destination, bool relu) override {
    using Kind = dnnl::prop_kind;
    using Descriptor = dnnl::inner_product_forward::desc;
    const Kind kind = training() ? Kind::forward_training : Kind::forward_inference;
    const Desc bias({destination.dims()[1]}, memory::data_type::f32, memory::format_tag::any);
    const Descriptor desc =
        has_bias() ? Descriptor(kind, source, weights, bias, destination) : Descriptor(kind, source, weights, destination);
    forward_ = dnnl::inner_product_forward::primitive_desc(desc, attributes(relu), workshop_.engine);
    return forward_;
  }

  PrimitiveDesc make_backward_data(const Desc& d_source, const Desc& weights, const Desc& d_destination) override {
    const dnnl::inner_product_backward_data::desc desc(d_source, weights, d_destination);
    return dnnl::inner_product_backward_data::primitive_desc(desc, attributes(), workshop_.engine, forward_);
  }

  PrimitiveDesc make_backward_weights(const Desc& source, const Desc& d_weights, const Desc& d_destination, bool bias) override {
    using Descriptor = dnnl::inner_product_backward_weights::desc;
    const Desc d_bias({d_destination.dims()[1]}, memory::data_type::f32, memory::format_tag::any);
    const Descriptor desc =
        bias ? Descriptor(source, d_weights, d_bias, d_destination) : Descriptor(source, d_weights, d_destination);
    return dnnl::inner_product_backward_weights::primitive_desc(desc, attributes(), workshop_.engine, forward_);
  }

  Desc canonical_weights() const override {
    const Shape& from = layer().input_shapes[0];
    const std::int64_t out = layer().output[0];
    if (from.rank() == 1) return {{out, from[0]}, memory::data_type::f32, memory::format_tag::oi};
    return {{out, from[0], from[1], from[2]}, memory::data_type::f32, memory::format_tag::oihw};
  }

  Desc source_desc(const MapSpec& input) const override {
    return layer().input_shapes[0].rank() == 1 ? input.rows_desc() : input.desc();
  }
  Desc destination_desc(const MapSpec& output) const override { return output.rows_desc(); }
  DataType output_type(const Planner& planner) const override { return planner.value(node_.output).spec.type; }
  bool is_slow(const std::string& implementation) const override { return implementation.find("ref") != std::string::npos; }

 private:
  dnnl::inner_product_forward::primitive_desc forward_;
};

}  // namespace

std::unique_ptr<Operation> make_linear(Workshop& workshop, const Node& node) { return std::make_unique<Linear>(workshop, node); }

}  // namespace millrace::cpu
