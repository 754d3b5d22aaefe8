// Layers that this backend has no operation of its own for: their portable kernels, over this backend's maps and threads.
#include "millrace/portable_plan.h"

#include "kernels/run_kernel.h"
#include "simple_operations.h"

namespace millrace::cpu {
namespace {

class Portable final : public Operation {
 public:
  Portable(Workshop& workshop, const Node& node)
      : Operation(workshop, node), plan_(layer(), {node.inputs, node.output, trained()}) {}

  void plan(Planner& planner) override {
    const DataType type = planner.value(input()).spec.type;
    plan_output(planner, type, plan_.in_place() ? input() : kNoResidual);
    for (int port = 1; port < layer().output_count(); ++port) plan_output(planner, type, kNoResidual, port);
    plan_.plan(planner);
  }
  void plan_backward(Planner& planner) override { plan_.plan_backward(planner); }

  void bind(const Planner& planner, const Binding& binding) override { plan_.bind(planner, Places{*this, binding}); }
  void forward(const Pass&) override { plan_.forward(run_element); }
  void recompute(const Pass& pass) override {  // what is kept of each place was let go with the first operation
    if (plan_.keeps_places() || !output_is_kept()) forward(pass);
  }
  void backward(const Pass&) override { plan_.backward(run_element); }

 private:
  std::vector<bool> trained() const {
    std::vector<bool> result;
    for (std::size_t p = 0; p < layer().parameters.size(); ++p) result.push_back(trains(p));
    return result;
  }

  struct Places {
    const Portable& operation;
    const Binding& binding;

    void* memory(TensorId tensor) const { return binding.at(tensor); }
    TensorView view(const MapSpec& spec, void* data) const { return view_of(spec.map(data)); }
    float* parameter(std::size_t index) const { return operation.value(index); }
    float* gradient(std::size_t index) const { return operation.Operation::gradient(index); }
  };

  PortablePlan<Planner> plan_;
};

}  // namespace

std::unique_ptr<Operation> make_portable(Workshop& workshop, const Node& node) {
  return std::make_unique<Portable>(workshop, node);
}

}  // namespace millrace::cpu
