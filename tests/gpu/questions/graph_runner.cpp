#include "graph_runner.h"

#include <algorithm>
#include <cmath>

#include "millrace/error.h"

namespace millrace::gpu {
namespace {

constexpr int kRuns = 3;
constexpr int kPlaces = 256;
constexpr int kPlacesOfWeights = 4;  // each is a sum over the whole batch

// NaN is no number in JSON, and must be seen.
Json figure(double value) { return std::isfinite(value) ? Json(rounded(value)) : Json("not finite"); }

template <class T>
std::vector<T> to_host(const Buffer& from, std::size_t count, cudaStream_t stream) {
  std::vector<T> values(count);
  check(cudaMemcpyAsync(values.data(), from.data(), count * sizeof(T), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  finish(stream);
  return values;
}

Buffer zeroed(std::size_t bytes, cudaStream_t stream) {
  Buffer buffer(bytes);
  check(cudaMemsetAsync(buffer.data(), 0, bytes, stream), "cudaMemsetAsync");
  return buffer;
}

}  // namespace

GraphRunner::GraphRunner(const CudnnApi& api, cudnnHandle_t handle, cudaStream_t stream, GraphKind kind,
                         const ConvolutionCase& shape, Numbers type)
    : api_(api), handle_(handle), stream_(stream), kind_(kind), shape_(shape), type_(type), uses_(tensors_of(kind, shape, type)) {
  for (const TensorUse& use : uses_)
    buffers_.emplace(use.tensor, Buffer(static_cast<std::size_t>(use.count) * size_of(use.type)));
}

void GraphRunner::prepare() {
  for (const TensorUse& use : uses_) {
    const bool read_first = use.tensor == Tensor::x && kind_ == GraphKind::data_gradient_beta;
    if (use.written && !read_first) {
      const std::size_t bytes = static_cast<std::size_t>(use.count) * size_of(use.type);
      check(cudaMemsetAsync(data(use.tensor), 0xff, bytes, stream_), "cudaMemsetAsync");
    } else {
      check(fill(data(use.tensor), use.type, use.count, seed_of(use.tensor), stream_), "fill");
    }
  }
}

void GraphRunner::execute(const ReadyEngine& engine, void* workspace) {
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  for (const TensorUse& use : uses_) {
    ids.push_back(static_cast<std::int64_t>(use.tensor));
    pointers.push_back(data(use.tensor));
  }
  Descriptor bound(api_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  bound.set_all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set_all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
      .finalize();
  api_.check(api_.cudnnBackendExecute(handle_, engine.plan.native(), bound.native()), "cudnnBackendExecute");
}

void GraphRunner::run(const ReadyEngine& engine, const GraphRunner* plain, Json& report) {
  const Buffer workspace(std::max<std::size_t>(engine.workspace, 1));
  prepare();
  execute(engine, workspace.data());
  finish(stream_);
  report["error"] = error();
  if (kind_ == GraphKind::forward_stats || kind_ == GraphKind::scaled_stats) report["statistics"] = statistics_error();
  if (plain != nullptr) report["error_everywhere"] = error_everywhere(*plain);
  report["ms"] = rounded(best_milliseconds(stream_, kRuns, [&] { execute(engine, workspace.data()); }));
}

std::vector<float> GraphRunner::read(Tensor tensor, Numbers type, const std::vector<std::int64_t>& places) {
  const Buffer at(places.size() * sizeof(std::int64_t)), out(places.size() * sizeof(float));
  check(cudaMemcpyAsync(at.data(), places.data(), places.size() * sizeof(std::int64_t), cudaMemcpyHostToDevice, stream_),
        "cudaMemcpyAsync");
  check(gather(data(tensor), type, at.as<std::int64_t>(), static_cast<int>(places.size()), out.as<float>(), stream_), "gather");
  return to_host<float>(out, places.size(), stream_);
}

Json GraphRunner::error() {
  const auto use =
      std::find_if(uses_.begin(), uses_.end(), [&](const TensorUse& candidate) { return candidate.tensor == result_of(kind_); });
  if (wanted_.empty()) {
    places_ = sample_places(use->count, use->tensor == Tensor::w ? kPlacesOfWeights : kPlaces);
    for (const std::int64_t place : places_) wanted_.push_back(reference_at(kind_, shape_, place));
  }
  const std::vector<float> found = read(use->tensor, use->type, places_);
  double off = 0, size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    off = larger_or_nan(off, std::fabs(found[i] - wanted_[i]));
    size = std::max(size, std::fabs(wanted_[i]));
  }
  return figure(off / size);
}

// What batch norm makes of them: the mean's error in standard deviations, and the relative error of the squares.
Json GraphRunner::statistics_error() {
  const std::int64_t rows = shape_.y_count() / shape_.k;
  double mean_off = 0, squares_off = 0;
  for (const std::int64_t channel : {std::int64_t{0}, shape_.k - 1}) {
    const Buffer sums = zeroed(2 * sizeof(double), stream_);
    check(add_up_channel(data(Tensor::y), type_, rows, shape_.k, channel, sums.as<double>(), stream_), "add_up_channel");
    const std::vector<double> wanted = to_host<double>(sums, 2, stream_);
    const double sum = read(Tensor::sum, Numbers::f32, {channel}).front();
    const double squares = read(Tensor::squares, Numbers::f32, {channel}).front();
    const double count = static_cast<double>(rows), deviation = std::sqrt(wanted[1] / count);
    const double mean = std::fabs(sum - wanted[0]) / count / deviation, square = std::fabs(squares - wanted[1]) / wanted[1];
    mean_off = larger_or_nan(mean_off, mean);
    squares_off = larger_or_nan(squares_off, square);
  }
  return {{"mean_error", figure(mean_off)}, {"squares_error", figure(squares_off)}};
}

Json GraphRunner::error_everywhere(const GraphRunner& plain) {
  const std::int64_t count = shape_.x_count();
  const Buffer addend(static_cast<std::size_t>(count) * size_of(type_));
  const Tensor added = kind_ == GraphKind::data_gradient_beta ? Tensor::x : Tensor::addend;
  check(fill(addend.data(), type_, count, seed_of(added), stream_), "fill");
  const Buffer largest = zeroed(2 * sizeof(float), stream_);
  check(compare(data(Tensor::x), plain.data(Tensor::x), addend.data(), type_, count, largest.as<float>(), stream_), "compare");
  const std::vector<float> found = to_host<float>(largest, 2, stream_);
  return figure(static_cast<double>(found[0]) / static_cast<double>(found[1]));
}

}  // namespace millrace::gpu
