// Local response normalisation across channels, through oneDNN.
#include "primitives.h"
#include "simple_operations.h"

namespace millrace::cpu {
namespace {

using dnnl::memory;

class Lrn final : public Operation {
 public:
  using Operation::Operation;

  void plan(Planner& planner) override {
    const Value& output = plan_output(planner, planner.value(input()).spec.type);
    const Value& from = planner.value(input());
    planner.use(from.tensor);
    const auto kind = planner.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    forward_desc_ = describe_lrn(compile_context_.engine, kind, shape(from.spec.desc()));
    forward_ = dnnl::lrn_forward(forward_desc_);
    scratch_ = planner.tensor(forward_desc_.scratchpad_desc().get_size());
    if (planner.training()) workspace_ = planner.tensor(forward_desc_.workspace_desc().get_size());
    desc_ = output.spec.desc();
  }

  void plan_backward(Planner& planner) override {
    const TensorId gradient = planner.value(node_.output).gradient;
    if (gradient == kNoTensor || !planner.value(input()).needs_gradient) return;
    planner.use(gradient);
    planner.use(planner.value(input()).tensor);
    planner.use(workspace_);
    backward_desc_ = describe_lrn_backward(compile_context_.engine, forward_desc_, shape(desc_));
    backward_ = dnnl::lrn_backward(backward_desc_);
    backward_scratch_ = planner.tensor(backward_desc_.scratchpad_desc().get_size());
    contribution_ = planner.contribute(input());
  }

  void bind(const Planner& planner, const Binding& binding) override {
    const auto memory_of = [&](const memory::desc& desc, TensorId tensor) {
      return memory(desc, compile_context_.engine, binding.at(tensor));
    };
    const Value& from = planner.value(input());
    const Value& to = planner.value(node_.output);
    forward_arguments_ = {{DNNL_ARG_SRC, memory_of(desc_, from.tensor)},
                          {DNNL_ARG_DST, memory_of(desc_, to.tensor)},
                          {DNNL_ARG_SCRATCHPAD, memory_of(forward_desc_.scratchpad_desc(), scratch_)}};
    if (workspace_ != kNoTensor) {
      forward_arguments_.emplace(DNNL_ARG_WORKSPACE, memory_of(forward_desc_.workspace_desc(), workspace_));
    }
    if (contribution_.tensor == kNoTensor) return;
    d_input_ = target_of(planner, binding, input(), contribution_);
    backward_arguments_ = {{DNNL_ARG_SRC, memory_of(desc_, from.tensor)},
                           {DNNL_ARG_DIFF_DST, memory_of(desc_, to.gradient)},
                           {DNNL_ARG_DIFF_SRC, memory_of(desc_, contribution_.tensor)},
                           {DNNL_ARG_WORKSPACE, memory_of(forward_desc_.workspace_desc(), workspace_)},
                           {DNNL_ARG_SCRATCHPAD, memory_of(backward_desc_.scratchpad_desc(), backward_scratch_)}};
  }

  void recompute(const Pass& pass) override { forward(pass); }  // for the workspace, whatever became of the output

  void forward(const Pass&) override { forward_.execute(compile_context_.stream, forward_arguments_); }

  void backward(const Pass&) override {
    if (!d_input_) return;
    backward_.execute(compile_context_.stream, backward_arguments_);
    d_input_.finish();
  }

  std::string detail() const override { return forward_desc_.impl_info_str(); }

 private:
  LrnShape shape(const memory::desc& map) const {
    const auto& lrn = layer().as<LrnAttributes>();
    return {map, lrn.size, static_cast<float>(lrn.alpha), static_cast<float>(lrn.beta), static_cast<float>(lrn.k)};
  }

  dnnl::lrn_forward::primitive_desc forward_desc_;
  dnnl::lrn_backward::primitive_desc backward_desc_;
  dnnl::primitive forward_, backward_;
  memory::desc desc_;
  TensorId scratch_ = kNoTensor, workspace_ = kNoTensor, backward_scratch_ = kNoTensor;
  std::unordered_map<int, memory> forward_arguments_, backward_arguments_;
  Planner::Contribution contribution_;
  GradientTarget d_input_;
};

}  // namespace

std::unique_ptr<Operation> make_lrn(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Lrn>(compile_context, node);
}

}  // namespace millrace::cpu
