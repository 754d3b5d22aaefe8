#include "operation.h"

namespace millrace::cuda {

MapSpec Operation::output_spec(const Planner& planner, DataType type) const {
  return MapSpec::of(workshop_.layer(node_.output).output, planner.value(input()).spec.n, type);
}

Value& Operation::plan_output(Planner& planner, const MapSpec& spec, int in_place_of) {
  Value& output = planner.value(node_.output);
  output.spec = spec;
  if (output_is_kept_) {
    planner.use(output.tensor);
    return output;
  }
  if (in_place_of != kNoResidual && !planner.training()) {
    const Value& taken = planner.value(in_place_of);
    if (taken.readers == 1 && taken.tensor != kNoTensor && taken.spec.bytes() == output.spec.bytes()) {
      output.tensor = taken.tensor;
      planner.use(output.tensor);
      return output;
    }
  }
  output.tensor = planner.tensor(output.spec.bytes());
  return output;
}

Planner::Contribution Operation::contribute(Planner& planner, int layer, TensorId free) {
  const bool first = planner.value(layer).gradient == kNoTensor;
  return first && free != kNoTensor ? planner.contribute_in(layer, free) : planner.accumulate(layer);
}

bool Operation::trains(std::size_t parameter) const {
  if (parameter >= layer().parameters.size()) return false;
  const Parameter& known = workshop_.parameters.parameter(layer().parameters[parameter]);
  return known.trainable && !known.statistic;
}

float* Operation::gradient(std::size_t parameter) const {
  return trains(parameter) ? workshop_.parameters.gradient(layer().parameters[parameter]) : nullptr;
}

Map map_of(const Planner& planner, const Binding& binding, int layer) {
  const Value& value = planner.value(layer);
  return {binding.at(value.tensor), value.spec};
}

Map gradient_of(const Planner& planner, const Binding& binding, int layer) {
  const Value& value = planner.value(layer);
  return {binding.at(value.gradient), value.spec};
}

GradientTarget target_of(const Planner& planner, const Binding& binding, int layer, const Planner::Contribution& contribution) {
  return {{binding.at(contribution.tensor), planner.value(layer).spec}, contribution.add};
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
    case Node::Kind::concat: return make_joining(workshop, node);
    case Node::Kind::portable: return make_portable(workshop, node);
  }
  return nullptr;
}

}  // namespace millrace::cuda
