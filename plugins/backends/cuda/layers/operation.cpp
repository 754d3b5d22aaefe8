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

std::unique_ptr<Operation> make_operation(Workshop& workshop, const Node& node) {
  switch (node.kind) {
    case Node::Kind::conv: return make_convolution(workshop, node);
    case Node::Kind::linear: return make_linear(workshop, node);
    case Node::Kind::normalise: return make_normalisation(workshop, node);
    case Node::Kind::pool: return make_pooling(workshop, node);
    case Node::Kind::activate:
    case Node::Kind::dropout:
    case Node::Kind::scale:
    case Node::Kind::softmax:
    case Node::Kind::flatten:
    case Node::Kind::lrn: return make_unary(workshop, node);
    case Node::Kind::add:
    case Node::Kind::split:
    case Node::Kind::concat: return make_joining(workshop, node);
    case Node::Kind::portable: return make_portable(workshop, node);
  }
  return nullptr;
}

}  // namespace millrace::cuda
