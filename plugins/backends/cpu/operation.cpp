#include "operation.h"

#include "int8/int8_plan.h"
#include "weighted.h"

namespace millrace::cpu {

Map map_of(const Planner& planner, const Binding& binding, LayerPort of) {
  const Value& value = planner.value(of);
  return value.spec.map(binding.at(value.tensor));
}

Map gradient_of(const Planner& planner, const Binding& binding, LayerPort of) {
  const Value& value = planner.value(of);
  return value.spec.map(binding.at(value.gradient));
}

GradientTarget target_of(const Planner& planner, const Binding& binding, LayerPort of,
                         const Planner::Contribution& contribution) {
  const MapSpec& spec = planner.value(of).spec;
  return {spec.map(binding.at(contribution.tensor)), spec.map(binding.at(contribution.gradient)), contribution.add};
}

void GradientTarget::finish() const {
  if (add) kernels().add(total, written, total);
}

std::unique_ptr<Operation> make_operation(CompileContext& compile_context, const Node& node) {
  const auto op = [&](int index) -> const std::string& { return compile_context.layer(index).op; };
  if (op(node.output) == kQuantise ||
      (compile_context.int8 != nullptr && multiplies_bytes() && is_int8(compile_context.layer(node.layer)))) {
    if (op(node.layer) == kQuantise) return make_quantise(compile_context, node);
    return is_int8(compile_context.layer(node.layer)) ? make_int8_window(compile_context, node)
                                                      : make_of_integers(compile_context, node);
  }
  switch (node.kind) {
    case Node::Kind::conv: return make_convolution(compile_context, node);
    case Node::Kind::linear: return make_linear(compile_context, node);
    case Node::Kind::normalise: return make_normalisation(compile_context, node);
    case Node::Kind::pool:
    case Node::Kind::activate:
    case Node::Kind::dropout:
    case Node::Kind::scale:
    case Node::Kind::flatten:
    case Node::Kind::lrn: return make_unary(compile_context, node);
    case Node::Kind::add:
    case Node::Kind::concat:
    case Node::Kind::split: return make_joining(compile_context, node);
    case Node::Kind::softmax:  // computed by the portable kernels of its layer
    case Node::Kind::portable: return make_portable(compile_context, node);
  }
  return nullptr;
}

}  // namespace millrace::cpu
