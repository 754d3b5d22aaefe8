// Layers without an operation in this backend: runs their portable kernels over its maps.
#include "millrace/backend/portable_operation.h"

#include "operation.h"

namespace millrace::cuda {
namespace {

auto submit_to(Queue& queue) {
  return [&queue](const Kernel& kernel, const PortableElement& element) { queue.run(kernel, &element); };
}

class Portable final : public PortableOperation<Operation> {
 public:
  using PortableOperation::PortableOperation;
  void forward(Queue& queue) override { plan_.forward(submit_to(queue)); }
  void recompute(Queue& queue) override {
    if (computes_again()) forward(queue);
  }
  void backward(Queue& queue) override { plan_.backward(submit_to(queue)); }
};

}  // namespace

std::unique_ptr<Operation> make_portable(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Portable>(compile_context, node);
}

}  // namespace millrace::cuda
