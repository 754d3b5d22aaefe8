#include "millrace/loss_plan.h"

#include "millrace/error.h"

namespace millrace {
namespace {

MemoryUse reading(const void* memory, std::int64_t count, std::size_t size) {
  return {memory, static_cast<std::size_t>(count) * size, false};
}
MemoryUse writing(const void* memory, std::int64_t count, std::size_t size) {
  return {memory, static_cast<std::size_t>(count) * size, true};
}

bool writes(const std::vector<PassCall>& calls, PassTensor tensor) {
  for (const PassCall& call : calls) {
    for (const PassTensor& written : call.writes) {
      if (written == tensor) return true;
    }
  }
  return false;
}

// One number for each sample, the same at all its pixels.
TensorView by_sample(const float* values) {
  TensorView view;
  view.data = const_cast<float*>(values);  // read
  view.stride_n = 1;
  view.by_channel = false;
  view.padded = 1;
  return view;
}

}  // namespace

std::vector<MemoryUse> SumPlaces::uses() const {
  return {reading(figures, count * places, sizeof *figures), writing(sums, size(), sizeof *sums)};
}
std::vector<MemoryUse> JoinSums::uses() const {
  return {reading(chunks, count * each, sizeof *chunks), writing(sums, count, sizeof *sums)};
}
std::vector<MemoryUse> CountPairs::uses() const {
  return {reading(classes, places, sizeof *classes), reading(predicted, places, sizeof *predicted),
          writing(pairs, number * number * chunks_of_places(places), sizeof *pairs)};
}

// [sums][chunks of sums][chunks of pairs][figures by place][predicted]
struct LossPlan::Workspace {
  double *sums, *chunks, *pairs;
  float *figures, *predicted;
  std::size_t bytes = 0;

  Workspace(const LossPlan& plan, std::int64_t samples, std::byte* memory) {
    const auto places = static_cast<std::size_t>(samples * plan.pixels_);
    const auto chunk_count = static_cast<std::size_t>(chunks_of_places(static_cast<std::int64_t>(places)));
    const auto take = [&]<class T>(T*& array, std::size_t count) {
      array = memory == nullptr ? nullptr : reinterpret_cast<T*>(memory + bytes);
      bytes += (count * sizeof(T) + 7) / 8 * 8;
    };
    take(sums, plan.sums_);
    take(chunks, plan.figures_ * chunk_count);
    take(pairs, plan.pairs_ * chunk_count);
    take(figures, plan.figures_ * places);
    take(predicted, plan.pairs_ > 0 ? places : 0);
  }
};

LossPlan::LossPlan(std::shared_ptr<const Loss> loss, const Shape& output)
    : loss_(std::move(loss)),
      channels_(output[0]),
      pixels_(output.elements() / output[0]),
      figures_(loss_->info().sums.size()),
      pairs_(loss_->info().class_matrix ? static_cast<std::size_t>(channels_ * channels_) : 0),
      sums_(figures_ + pairs_) {
  LossPass pass;
  loss_->compute(pass);
  calls_ = pass.calls();
  constants_ = loss_->constants(channels_);
  const LossInfo& info = loss_->info();
  for (std::size_t sum = 0; sum < figures_; ++sum) {
    if (writes(calls_, pass.figure(static_cast<int>(sum)))) continue;
    fail(ErrorKind::usage, "loss '{}': no kernel writes the sum '{}'", info.name, info.sums[sum]);
  }
  if (pairs_ > 0 && !writes(calls_, pass.predicted())) {
    fail(ErrorKind::usage, "loss '{}': no kernel writes the predicted classes, which its class matrix needs", info.name);
  }
  for (const PassCall& call : calls_) {
    if (call.kernel->form == PortableForm::row) continue;
    fail(ErrorKind::usage, "loss '{}': kernel '{}' is no row", info.name, call.kernel->first.name);
  }
}

std::size_t LossPlan::workspace(std::int64_t samples) const { return Workspace(*this, samples, nullptr).bytes; }

TensorView LossPlan::view_of(const PassTensor& tensor, const LossTensors& tensors, const Workspace& at) const {
  const auto by_place = [&](float* values) {
    TensorView view = by_sample(values);
    view.stride_n = pixels_;
    view.stride_pixel = 1;
    return view;
  };
  switch (tensor.kind) {
    case PassTensor::Kind::output: return tensors.output;
    case PassTensor::Kind::d_output: return tensors.d_output;
    case PassTensor::Kind::target: return tensors.target;
    case PassTensor::Kind::weight: return by_sample(tensors.weights);
    case PassTensor::Kind::label: return by_sample(tensors.labels);
    case PassTensor::Kind::second_label: return by_sample(tensors.second_labels);
    case PassTensor::Kind::share: return by_sample(tensors.shares);
    case PassTensor::Kind::figure: return by_place(at.figures + tensor.index * tensors.samples * pixels_);
    case PassTensor::Kind::predicted: return by_place(at.predicted);
    case PassTensor::Kind::constant: {
      TensorView view;
      view.data = const_cast<float*>(tensors.constants);  // read
      view.padded = channels_;
      return view;
    }
    default: break;
  }
  fail(ErrorKind::usage, "loss '{}': a kernel uses a tensor of layers", loss_->info().name);
}

void LossPlan::run_call(const PassCall& call, const LossTensors& tensors, const Workspace& at, const Submit& submit) const {
  PortableElement element;
  element.kernel = call.kernel;
  element.functor = call.functor;
  element.n = tensors.samples;
  element.pixels = pixels_;
  element.channels = channels_;
  element.reads = static_cast<std::int32_t>(call.reads.size());
  element.writes = static_cast<std::int32_t>(call.writes.size());
  element.divisor = tensors.divisor;
  std::size_t tensor = 0;
  for (const PassTensor& read : call.reads) element.tensors[tensor++] = view_of(read, tensors, at);
  for (const PassTensor& written : call.writes) element.tensors[tensor++] = view_of(written, tensors, at);
  submit(call.kernel->first, &element);
}

void LossPlan::run_sums(const LossTensors& tensors, const Workspace& at, const Submit& submit) const {
  const std::int64_t places = tensors.samples * pixels_, chunks = chunks_of_places(places);
  const auto count = static_cast<std::int64_t>(figures_);
  const SumPlaces parts{at.figures, chunks == 1 ? at.sums : at.chunks, count, places};
  submit(*loss_->info().sum_places, &parts);
  if (chunks == 1) return;
  const JoinSums joined{at.chunks, at.sums, count, chunks};
  submit(*loss_->info().join_sums, &joined);
}

void LossPlan::run_matrix(const LossTensors& tensors, const Workspace& at, const Submit& submit) const {
  const std::int64_t places = tensors.samples * pixels_, chunks = chunks_of_places(places);
  double* const matrix = at.sums + figures_;
  const CountPairs parts{static_cast<const float*>(tensors.target.data), at.predicted, chunks == 1 ? matrix : at.pairs, channels_,
                         places};
  submit(*loss_->info().count_pairs, &parts);
  if (chunks == 1) return;
  const JoinSums joined{at.pairs, matrix, static_cast<std::int64_t>(pairs_), chunks};
  submit(*loss_->info().join_sums, &joined);
}

void LossPlan::run(const LossTensors& tensors, std::byte* workspace, const Submit& submit) const {
  const Workspace at(*this, tensors.samples, workspace);
  for (const PassCall& call : calls_) run_call(call, tensors, at, submit);
  run_sums(tensors, at, submit);
  if (pairs_ > 0) run_matrix(tensors, at, submit);
}

}  // namespace millrace
