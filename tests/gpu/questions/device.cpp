#include "device.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::gpu {

Buffer::Buffer(std::size_t bytes) { check(cudaMalloc(&data_, bytes), fmt::format("cudaMalloc of {} bytes", bytes)); }

Pinned::Pinned(std::size_t bytes) {
  check(cudaHostAlloc(&data_, bytes, cudaHostAllocPortable), fmt::format("cudaHostAlloc of {} bytes", bytes));
}

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream(stream);
}

Event make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return Event(event);
}

GraphExec record(cudaStream_t stream, const std::function<void()>& submit) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  submit();
  cudaGraph_t recorded = nullptr;
  check(cudaStreamEndCapture(stream, &recorded), "cudaStreamEndCapture");
  const Graph graph(recorded);
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, graph.get(), 0), "cudaGraphInstantiate");
  GraphExec result(executable);
  check(cudaGraphUpload(executable, stream), "cudaGraphUpload");
  finish(stream);
  return result;
}

double device_milliseconds(cudaStream_t stream, const std::function<void()>& submit) {
  const Event begin = make_event(cudaEventDefault), end = make_event(cudaEventDefault);
  check(cudaEventRecord(begin.get(), stream), "cudaEventRecord");
  submit();
  check(cudaEventRecord(end.get(), stream), "cudaEventRecord");
  check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
  return milliseconds;
}

double best_milliseconds(cudaStream_t stream, int times, const std::function<void()>& submit) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) best = std::min(best, device_milliseconds(stream, submit));
  return best;
}

double host_milliseconds(const std::function<void()>& work) {
  const Stopwatch watch;
  work();
  return watch.milliseconds();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * scale) / scale;
}

void finish(cudaStream_t stream) { check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

int multiprocessors() {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, kDevice), "cudaDeviceGetAttribute");
  return count;
}

}  // namespace millrace::gpu
