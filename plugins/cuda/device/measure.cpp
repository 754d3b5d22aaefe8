#include "measure.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "errors.h"

namespace millrace::cuda {
namespace {

constexpr int kFill = 0x3c;  // bytes 3c 3c are 0.0115 in bf16, four of them the same in float32
constexpr int kRuns = 5;

struct Destroy {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Stream = std::unique_ptr<CUstream_st, Destroy>;
using Mark = std::unique_ptr<CUevent_st, Destroy>;

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate for measuring");
  return Stream(stream);
}

Mark make_mark() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate for measuring");
  return Mark(event);
}

}  // namespace

MeasureMemory::MeasureMemory(std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMalloc(&data_, bytes), fmt::format("cudaMalloc of {} bytes for measuring", bytes));
  // Waits for itself, since the measuring stream will not; not for the device, which would break captures of other threads.
  const Stream stream = make_stream();
  check(cudaMemsetAsync(data_, kFill, bytes, stream.get()), "cudaMemsetAsync for measuring");
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize for measuring");
}

MeasureMemory::~MeasureMemory() {
  if (data_ != nullptr) cudaFree(data_);
}

std::vector<double> measure(cudaStream_t stream, std::size_t count, const std::function<void(std::size_t, cudaStream_t)>& run) {
  const Mark begin = make_mark(), end = make_mark();
  std::vector<double> best(count, std::numeric_limits<double>::infinity());
  for (std::size_t candidate = 0; candidate < count; ++candidate) {
    try {
      run(candidate, stream);  // loads its code
      for (int i = 0; i < kRuns; ++i) {
        float milliseconds = 0;
        check(cudaEventRecord(begin.get(), stream), "cudaEventRecord");
        run(candidate, stream);
        check(cudaEventRecord(end.get(), stream), "cudaEventRecord");
        check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
        check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
        best[candidate] = std::min(best[candidate], static_cast<double>(milliseconds) / 1000);
      }
    } catch (const Error&) {
      best[candidate] = std::numeric_limits<double>::infinity();
    }
  }
  return best;
}

std::size_t fastest(std::span<const double> seconds) {
  return static_cast<std::size_t>(std::min_element(seconds.begin(), seconds.end()) - seconds.begin());
}

}  // namespace millrace::cuda
