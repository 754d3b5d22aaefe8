// Layers without an operation in this backend: runs their portable kernels over its maps and threads.
#include "millrace/backend/portable_operation.h"

#include "kernels/run_kernel.h"
#include "operation.h"

namespace millrace::cpu {
namespace {

class Portable final : public PortableOperation<Operation> {
 public:
  using PortableOperation::PortableOperation;
  void forward(const Pass&) override { plan_.forward(run_element); }
  void recompute(const Pass& pass) override {
    if (computes_again()) forward(pass);
  }
  void backward(const Pass&) override { plan_.backward(run_element); }
};

}  // namespace

std::unique_ptr<Operation> make_portable(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Portable>(compile_context, node);
}

}  // namespace millrace::cpu
