#include "millrace/backend/loss_plan.h"

#include <algorithm>
#include <string_view>

#include "millrace/backend/network.h"
#include "millrace/error.h"

namespace millrace {
namespace {

MemoryUse reading(const void* memory, std::int64_t count, std::size_t size) {
  return {memory, static_cast<std::size_t>(count) * size, false};
}
MemoryUse writing(const void* memory, std::int64_t count, std::size_t size) {
  return {memory, static_cast<std::size_t>(count) * size, true};
}

bool writes(std::span<const PassCall> calls, PassTensor tensor) {
  return std::ranges::any_of(calls, [&](const PassCall& call) { return std::ranges::count(call.writes, tensor) > 0; });
}

// Whether the tensor has a number or a channel for each place of the output.
bool has_places(const PassTensor& tensor) {
  using Kind = PassTensor::Kind;
  const Kind kind = tensor.kind;
  return kind == Kind::output || kind == Kind::d_output || kind == Kind::target || kind == Kind::map || kind == Kind::predicted;
}

// Whether a call runs once per sample.
bool is_of_samples(const PassCall& call) {
  const auto is_total = [](const PassTensor& tensor) { return tensor.kind == PassTensor::Kind::total; };
  return std::ranges::none_of(call.reads, has_places) && std::ranges::none_of(call.writes, has_places) &&
         (std::ranges::any_of(call.reads, is_total) || std::ranges::any_of(call.writes, is_total));
}

// Channels of each place, or of each sample if there is one place.
TensorView by_channel(float* values, std::int64_t channels, std::int64_t pixels) {
  return TensorView{
      .data = values, .stride_n = pixels * channels, .stride_pixel = pixels == 1 ? 0 : channels, .padded = channels};
}

// One number per sample, repeated at all its pixels.
TensorView by_sample(const float* values) {
  TensorView view;
  view.data = const_cast<float*>(values);  // only read
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
          writing(pairs, number * number * chunks, sizeof *pairs)};
}
std::vector<MemoryUse> AddClasses::uses() const {
  std::vector<MemoryUse> uses = {writing(totals, 3 * classes, sizeof *totals)};
  for (const float* read : {weights, labels, second_labels, shares, predicted})
    uses.push_back(reading(read, samples, sizeof *read));
  return uses;
}

// [sums][chunks of sums][chunks of pairs][figures by place][predicted][maps][totals][parts of a sum over places]
struct LossPlan::Workspace {
  double *sums, *chunks, *pairs;
  float *figures, *predicted, *maps, *totals, *partial;
  std::size_t bytes = 0;

  Workspace(const LossPlan& plan, std::int64_t samples, std::byte* memory) {
    const auto places = static_cast<std::size_t>(samples * plan.pixels_);
    const auto chunk_count = static_cast<std::size_t>(chunks_of_places(static_cast<std::int64_t>(places)));
    const auto take = [&]<class T>(T*& array, std::size_t count) {
      array = memory == nullptr ? nullptr : reinterpret_cast<T*>(memory + bytes);
      bytes += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    };
    take(sums, plan.sums_);
    take(chunks, plan.figures_ * chunk_count);
    take(pairs, plan.pairs_ * static_cast<std::size_t>(plan.chunks_of_pairs(static_cast<std::int64_t>(places))));
    take(figures, plan.figures_ * places);
    take(predicted, plan.pairs_ + plan.class_totals_ > 0 ? places : 0);
    const auto channels = static_cast<std::size_t>(plan.channels_);
    take(maps, plan.maps_ * places * channels);
    take(totals, plan.totals_ * static_cast<std::size_t>(samples) * channels);
    std::size_t most = 0;
    for (const PassCall& call : plan.calls_) {
      if (call.kernel->form == PortableForm::sum) most = std::max(most, plan.extents_of(call, samples).partial_bytes());
    }
    take(partial, most / sizeof(float));
  }

 private:
  static constexpr std::size_t kAlignment = 16;  // packs of a GPU
};

LossPlan::LossPlan(std::shared_ptr<const Loss> loss, const Shape& output)
    : loss_(std::move(loss)),
      channels_(output[0]),
      pixels_(output.elements() / output[0]),
      figures_(loss_->info().sums.size()),
      pairs_(loss_->info().class_matrix ? static_cast<std::size_t>(channels_ * channels_) : 0),
      class_totals_(loss_->info().class_totals ? static_cast<std::size_t>(3 * channels_) : 0),
      sums_(figures_ + pairs_ + class_totals_) {
  LossPass pass;
  try {
    loss_->compute(pass);
  } catch (Error& error) {
    throw error.in(fmt::format("loss '{}'", loss_->info().name));
  }
  calls_ = pass.calls();
  maps_ = static_cast<std::size_t>(pass.count(PassTensor::Kind::map));
  totals_ = static_cast<std::size_t>(pass.count(PassTensor::Kind::total));
  constants_ = loss_->constants(channels_);
  const LossInfo& info = loss_->info();
  for (std::size_t sum = 0; sum < figures_; ++sum) {
    if (writes(calls_, pass.figure(static_cast<int>(sum)))) continue;
    fail(ErrorKind::usage, "loss '{}': no kernel writes the sum '{}'", info.name, info.sums[sum]);
  }
  if (pairs_ + class_totals_ > 0 && !writes(calls_, pass.predicted())) {
    fail(ErrorKind::usage, "loss '{}': no kernel writes the predicted classes, which its class {} needs", info.name,
         pairs_ > 0 ? "matrix" : "totals");
  }
  if (class_totals_ > 0 && info.target != LossTarget::labels) {
    fail(ErrorKind::usage, "loss '{}': class totals are those of labels, LossTarget::labels", info.name);
  }
  for (std::size_t call = 0; call < calls_.size(); ++call) check_call(call);
}

void LossPlan::check_call(std::size_t index) const {
  using Kind = PassTensor::Kind;
  const PassCall& call = calls_[index];
  const std::string_view loss = loss_->info().name, kernel = call.kernel->first.name;
  const Kind kind = call.writes.front().kind;
  const bool channels = kind == Kind::map || kind == Kind::total || kind == Kind::d_output;
  if (call.kernel->form == PortableForm::sum && kind != Kind::total) {
    fail(ErrorKind::usage, "loss '{}': kernel '{}' is a sum, which writes a total", loss, kernel);
  }
  if (call.kernel->form == PortableForm::each && !channels) {
    fail(ErrorKind::usage, "loss '{}': kernel '{}' writes one number per place: it must be a row", loss, kernel);
  }
  const std::span<const PassCall> before(calls_.data(), index);
  for (const PassTensor& read : call.reads) {
    if ((read.kind == Kind::map || read.kind == Kind::total) && !writes(before, read)) {
      fail(ErrorKind::usage, "loss '{}': kernel '{}' reads a tensor that no kernel before it writes", loss, kernel);
    }
  }
  const PassTensor gradient{Kind::d_output, 0};
  if (call.reads_tensor(gradient) || (writes(before, gradient) && writes({&call, 1}, gradient))) {
    fail(ErrorKind::usage, "loss '{}': kernel '{}': the gradient is written by one kernel, and not read", loss, kernel);
  }
}

std::size_t LossPlan::workspace(std::int64_t samples) const { return Workspace(*this, samples, nullptr).bytes; }

TensorView LossPlan::view_of(const PassTensor& tensor, const LossTensors& tensors, const Workspace& at) const {
  const std::int64_t samples = tensors.samples;
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
    case PassTensor::Kind::figure: return by_place(at.figures + tensor.index * samples * pixels_);
    case PassTensor::Kind::predicted: return by_place(at.predicted);
    case PassTensor::Kind::map: return by_channel(at.maps + tensor.index * samples * pixels_ * channels_, channels_, pixels_);
    case PassTensor::Kind::total: return by_channel(at.totals + tensor.index * samples * channels_, channels_, 1);
    case PassTensor::Kind::constant: {
      TensorView view;
      view.data = const_cast<float*>(tensors.constants);  // only read
      view.padded = channels_;
      return view;
    }
    default: break;
  }
  fail(ErrorKind::usage, "loss '{}': a kernel uses a tensor of layers", loss_->info().name);
}

// An element without views.
PortableElement LossPlan::extents_of(const PassCall& call, std::int64_t samples) const {
  PortableElement element;
  element.kernel = call.kernel;
  element.functor = call.functor;
  element.n = samples;
  element.pixels = is_of_samples(call) ? 1 : pixels_;
  element.channels = channels_;
  element.reads = static_cast<std::int32_t>(call.reads.size());
  element.writes = static_cast<std::int32_t>(call.writes.size());
  element.by_sample = true;
  return element;
}

void LossPlan::run_call(const PassCall& call, const LossTensors& tensors, const Workspace& at, const Submit& submit) const {
  const auto is_gradient = [](const PassTensor& tensor) { return tensor.kind == PassTensor::Kind::d_output; };
  if (tensors.d_output.data == nullptr && std::ranges::all_of(call.writes, is_gradient)) return;  // not needed
  PortableElement element = extents_of(call, tensors.samples);
  element.divisor = tensors.divisor;
  element.partial = at.partial;
  std::size_t tensor = 0;
  for (const PassTensor& read : call.reads) element.tensors[tensor++] = view_of(read, tensors, at);
  for (const PassTensor& written : call.writes) element.tensors[tensor++] = view_of(written, tensors, at);
  submit(call.kernel->first, &element);
  if (call.kernel->form == PortableForm::sum) submit(call.kernel->second, &element);
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
  const std::int64_t places = tensors.samples * pixels_, chunks = chunks_of_pairs(places);
  double* const matrix = at.sums + figures_;
  const CountPairs parts{
      static_cast<const float*>(tensors.target.data), at.predicted, chunks == 1 ? matrix : at.pairs, channels_, places, chunks};
  submit(*loss_->info().count_pairs, &parts);
  if (chunks == 1) return;
  const JoinSums joined{at.pairs, matrix, static_cast<std::int64_t>(pairs_), chunks};
  submit(*loss_->info().join_sums, &joined);
}

void LossPlan::run_totals(const LossTensors& tensors, const Workspace& at, const Submit& submit) const {
  const AddClasses all{tensors.weights,    tensors.labels, tensors.second_labels, tensors.shares, at.predicted,
                       at.sums + figures_, channels_,      tensors.samples};
  submit(*loss_->info().add_classes, &all);
}

// The same number as for other sums, unless their pairs of classes would take more than 32 MiB.
std::int64_t LossPlan::chunks_of_pairs(std::int64_t places) const {
  constexpr std::int64_t kMaxPairs = std::int64_t{1} << 22;
  if (pairs_ == 0) return 0;
  return std::min(chunks_of_places(places), std::max<std::int64_t>(kMaxPairs / static_cast<std::int64_t>(pairs_), 1));
}

void LossPlan::run(const LossTensors& tensors, std::byte* workspace, const Submit& submit) const {
  const Workspace at(*this, tensors.samples, workspace);
  for (const PassCall& call : calls_) run_call(call, tensors, at, submit);
  run_sums(tensors, at, submit);
  if (pairs_ > 0) run_matrix(tensors, at, submit);
  if (class_totals_ > 0) run_totals(tensors, at, submit);
}

const LossPlan& LossPlans::of(const LossAt& loss) {
  const LayerPort at = loss.output.value_or(network_.result());
  const std::pair key(loss.loss, at);
  const auto found = plans_.find(key);
  return found != plans_.end() ? found->second : plans_.emplace(key, LossPlan(loss.loss, network_.shape_of(at))).first->second;
}

std::size_t LossPlans::workspace(std::span<const LossAt> losses, std::int64_t samples) {
  std::size_t bytes = 0;
  for (const LossAt& loss : losses) bytes = std::max(bytes, of(loss).workspace(samples));
  return bytes;
}

TensorView target_view(const float* data, std::int64_t pixels, std::int64_t channels, bool classes) {
  TensorView view = by_channel(const_cast<float*>(data), channels, pixels);  // only read
  view.stride_pixel = channels;
  view.by_channel = !classes;
  return view;
}

}  // namespace millrace
