// Fully connected layers through oneDNN. A map is read in place: the weights are treated as (out, C, H, W).
#include "weighted.h"

namespace millrace::cpu {
namespace {

using dnnl::memory;

class Linear final : public Weighted {
 public:
  using Weighted::Weighted;

 protected:
  WindowSum sum() const override { return {.layer = WindowSum::Layer::linear}; }

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
  bool is_slow(const PrimitiveDesc& chosen) const override {
    return std::string_view(chosen.impl_info_str()).find("ref") != std::string_view::npos;
  }
};

}  // namespace

std::unique_ptr<Operation> make_linear(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Linear>(compile_context, node);
}

}  // namespace millrace::cpu
