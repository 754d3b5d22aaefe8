#include "operation.h"

namespace millrace::cuda {

Map map_of(const Planner& planner, const Binding& binding, LayerPort of) {
  const Value& value = planner.value(of);
  return {binding.at(value.tensor), value.spec};
}

Map gradient_of(const Planner& planner, const Binding& binding, LayerPort of) {
  const Value& value = planner.value(of);
  return {binding.at(value.gradient), value.spec};
}

GradientTarget target_of(const Planner& planner, const Binding& binding, LayerPort of,
                         const Planner::Contribution& contribution) {
  return {{binding.at(contribution.tensor), planner.value(of).spec}, contribution.add};
}

std::unique_ptr<Operation> make_operation(CompileContext& compile_context, const Node& node) {
  switch (node.kind) {
    case Node::Kind::conv: return make_convolution(compile_context, node);
    case Node::Kind::linear: return make_linear(compile_context, node);
    case Node::Kind::normalise: return make_normalisation(compile_context, node);
    case Node::Kind::pool:
    case Node::Kind::activate:
    case Node::Kind::dropout:
    case Node::Kind::scale:
    case Node::Kind::softmax:
    case Node::Kind::flatten:
    case Node::Kind::lrn: return make_unary(compile_context, node);
    case Node::Kind::add:
    case Node::Kind::split:
    case Node::Kind::concat: return make_joining(compile_context, node);
    case Node::Kind::portable: return make_portable(compile_context, node);
  }
  return nullptr;
}

}  // namespace millrace::cuda
