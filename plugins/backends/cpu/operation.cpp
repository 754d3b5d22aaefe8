#include "operation.h"

#include "simple_operations.h"
#include "weighted.h"

namespace millrace::cpu {

Value& Operation::plan_output(Planner& planner, DataType type, int in_place_of) {
  Value& output = planner.value(node_.output);
  const Layer& made = workshop_.layer(node_.output);
  output.spec = MapSpec::of(made.output, planner.value(input()).spec.n, type, workshop_.layout);
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

bool Operation::trains(std::size_t parameter) const {
  return parameter < layer().parameters.size() && workshop_.parameters.parameter(layer().parameters[parameter]).trainable &&
         !workshop_.parameters.parameter(layer().parameters[parameter]).statistic;
}

float* Operation::gradient(std::size_t parameter) const {
  return trains(parameter) ? workshop_.parameters.gradient(layer().parameters[parameter]) : nullptr;
}

Map map_of(const Planner& planner, const Binding& binding, int layer) {
  const Value& value = planner.value(layer);
  return value.spec.map(binding.at(value.tensor));
}

Map gradient_of(const Planner& planner, const Binding& binding, int layer) {
  const Value& value = planner.value(layer);
  return value.spec.map(binding.at(value.gradient));
}

void GradientTarget::bind(const Planner& planner, const Binding& binding, int layer, const Planner::Contribution& contribution) {
  const MapSpec& spec = planner.value(layer).spec;
  written = spec.map(binding.at(contribution.tensor));
  total = spec.map(binding.at(contribution.gradient));
  add = contribution.add;
}

void GradientTarget::finish() const {
  if (add) kernels().add(total, written, total);
}

std::unique_ptr<Operation> make_operation(Workshop& workshop, const Node& node) {
  switch (node.kind) {
    case Node::Kind::conv: return make_convolution(workshop, node);
    case Node::Kind::linear: return make_linear(workshop, node);
    case Node::Kind::normalise: return make_normalisation(workshop, node);
    case Node::Kind::pool: return make_pooling(workshop, node);
    case Node::Kind::activate: return make_activation(workshop, node);
    case Node::Kind::add: return make_addition(workshop, node);
    case Node::Kind::concat: return make_concatenation(workshop, node);
    case Node::Kind::dropout: return make_dropout(workshop, node);
    case Node::Kind::scale: return make_scale(workshop, node);
    case Node::Kind::softmax: return make_softmax(workshop, node);
    case Node::Kind::flatten: return make_flatten(workshop, node);
    case Node::Kind::lrn: return make_lrn(workshop, node);
    case Node::Kind::portable: return make_portable(workshop, node);
  }
  return nullptr;
}

}  // namespace millrace::cpu
