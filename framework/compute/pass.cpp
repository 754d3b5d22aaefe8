#include <algorithm>
#include <cstring>
#include <span>

#include "millrace/error.h"
#include "millrace/kernels/portable.h"
#include "millrace/layer.h"

namespace millrace {
namespace {

bool is_value(const PassTensor& tensor) {
  using Kind = PassTensor::Kind;
  const Kind kind = tensor.kind;
  return kind == Kind::input || kind == Kind::output || kind == Kind::d_input || kind == Kind::d_output;
}

}  // namespace

bool PassCall::reads_tensor(PassTensor tensor) const { return std::find(reads.begin(), reads.end(), tensor) != reads.end(); }

int PassCalls::count(PassTensor::Kind kind) const {
  int count = 0;
  for (const PassCall& call : calls_) {
    for (const std::vector<PassTensor>* tensors : {&call.reads, &call.writes}) {
      for (const PassTensor& tensor : *tensors) count = tensor.kind == kind ? std::max(count, tensor.index + 1) : count;
    }
  }
  return count;
}

void PortableLayer::write_onnx(OnnxLayer&) const { fail(ErrorKind::usage, "its type has no write_onnx()"); }

LayerPlan PortableLayer::plan(const std::vector<Shape>& inputs) const {
  LayerPlan plan;
  plan.output = infer(inputs.front());
  return plan;
}

void PassCalls::call(const PortableKernel& kernel, const void* functor, std::size_t bytes, std::vector<PassTensor> tensors,
                     std::size_t writes) {
  const std::size_t reads = tensors.size() - std::min(writes, tensors.size());
  if (static_cast<int>(reads) != kernel.reads || static_cast<int>(writes) != kernel.writes) {
    fail(ErrorKind::usage, "kernel '{}' reads {} tensors and writes {}, not {} and {}", kernel.first.name, kernel.reads,
         kernel.writes, reads, writes);
  }
  if (tensors.size() > PortableElement::kMaxTensors) {
    fail(ErrorKind::usage, "kernel '{}' has {} tensors, of {} at most", kernel.first.name, tensors.size(),
         PortableElement::kMaxTensors);
  }
  const bool values_only = std::all_of(tensors.begin(), tensors.end(), is_value);
  if (kernel.form == PortableForm::gather && !values_only) {
    fail(ErrorKind::usage, "kernel '{}' is a gather, which takes inputs, outputs and their gradients only", kernel.first.name);
  }
  for (const PassTensor& written : std::span(tensors).subspan(reads)) {
    const bool gradient = written.kind == PassTensor::Kind::d_input || written.kind == PassTensor::Kind::d_parameter;
    const auto writes_it = [&](const PassCall& call) {
      return std::find(call.writes.begin(), call.writes.end(), written) != call.writes.end();
    };
    if (gradient && std::any_of(calls_.begin(), calls_.end(), writes_it)) {
      fail(ErrorKind::usage, "kernel '{}' writes a gradient that an earlier kernel of the layer writes: only one may",
           kernel.first.name);
    }
  }
  PassCall& made = calls_.emplace_back();
  made.kernel = &kernel;
  std::memcpy(made.functor.data(), functor, bytes);
  made.reads.assign(tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(reads));
  made.writes.assign(tensors.begin() + static_cast<std::ptrdiff_t>(reads), tensors.end());
}

}  // namespace millrace
