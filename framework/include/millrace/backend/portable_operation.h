// The part of a portable layer's operation that backends share: planning and binding. Backends add the submission of kernels.
//
// Base: a backend's Operation, constructed from a compile context and a node, with `plan_output(Planner&, DataType, LayerPort
// in_place_of, int port)`, `value(parameter)` and `gradient(parameter)`, and a free function `view_of(const Spec&, void* data)`.
#pragma once

#include <string>
#include <vector>

#include "millrace/backend/planned_operation.h"
#include "millrace/backend/portable_plan.h"

namespace millrace {

template <class Base>
class PortableOperation : public Base {
 public:
  using typename Base::Planner;

  template <class CompileContext>
  PortableOperation(CompileContext& compile_context, const Node& node)
      : Base(compile_context, node), plan_(this->layer(), {node.inputs, node.output, trained()}) {}

  void plan(Planner& planner) override {
    const DataType type = planner.value(this->input()).spec.type;
    this->plan_output(planner, type, plan_.in_place() ? this->input() : kNoResidual, 0);
    for (int port = 1; port < this->layer().output_count(); ++port) this->plan_output(planner, type, kNoResidual, port);
    plan_.plan(planner);
  }
  void plan_backward(Planner& planner) override { plan_.plan_backward(planner); }
  std::string detail() const override { return "portable kernels"; }
  void bind(const Planner& planner, const Binding& binding) override { plan_.bind(planner, Places{*this, binding}); }

 protected:
  // Values kept for each place are released with the first operation, even if the output is kept.
  bool computes_again() const { return plan_.keeps_places() || !this->output_is_kept(); }

  PortablePlan<Planner> plan_;

 private:
  std::vector<bool> trained() const {
    std::vector<bool> result;
    for (std::size_t p = 0; p < this->layer().parameters.size(); ++p) result.push_back(this->trains(p));
    return result;
  }

  struct Places {
    const PortableOperation& operation;
    const Binding& binding;

    void* memory(TensorId tensor) const { return binding.at(tensor); }
    template <class Spec>
    TensorView view(const Spec& spec, void* data) const {
      return view_of(spec, data);
    }
    float* parameter(std::size_t index) const { return operation.value(index); }
    float* gradient(std::size_t index) const { return operation.Base::gradient(index); }
  };
};

}  // namespace millrace
