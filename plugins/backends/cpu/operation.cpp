#include "operation.h"

#include "simple_operations.h"
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
  switch (node.kind) {
    case Node::Kind::conv: return make_convolution(compile_context, node);
    case Node::Kind::linear: return make_linear(compile_context, node);
    case Node::Kind::normalise: return make_normalisation(compile_context, node);
    case Node::Kind::pool: return make_pooling(compile_context, node);
    case Node::Kind::activate: return make_activation(compile_context, node);
    case Node::Kind::add: return make_addition(compile_context, node);
    case Node::Kind::concat: return make_concatenation(compile_context, node);
    case Node::Kind::split: return make_split(compile_context, node);
    case Node::Kind::dropout: return make_dropout(compile_context, node);
    case Node::Kind::scale: return make_scale(compile_context, node);
    case Node::Kind::flatten: return make_flatten(compile_context, node);
    case Node::Kind::lrn: return make_lrn(compile_context, node);
    case Node::Kind::softmax:  // computed by the portable kernels of its layer
    case Node::Kind::portable: return make_portable(compile_context, node);
  }
  return nullptr;
}

}  // namespace millrace::cpu
