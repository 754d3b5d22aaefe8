// The first device, for questions: memory, streams and times that clean up after themselves. All throw Error(device).
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "errors.h"

namespace millrace::gpu {

using cuda::check;

inline constexpr int kDevice = 0;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;

class Buffer {  // of the device
 public:
  explicit Buffer(std::size_t bytes);
  ~Buffer() { cudaFree(data_); }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Buffer& operator=(Buffer&&) = delete;
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

class Pinned {  // of the host
 public:
  explicit Pinned(std::size_t bytes);
  ~Pinned() { cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

struct Destroy {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using Stream = std::unique_ptr<CUstream_st, Destroy>;
using Event = std::unique_ptr<CUevent_st, Destroy>;
using Graph = std::unique_ptr<CUgraph_st, Destroy>;
using GraphExec = std::unique_ptr<CUgraphExec_st, Destroy>;

Stream make_stream();  // non-blocking, as the backend's are
Event make_event(unsigned flags = cudaEventDisableTiming);

// What `submit` submits to the stream, as a recording ready to be launched.
GraphExec record(cudaStream_t stream, const std::function<void()>& submit);

class Stopwatch {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The device's milliseconds between before and after what `submit` submits, which it waits for.
double device_milliseconds(cudaStream_t stream, const std::function<void()>& submit);
// The least of `times`.
double best_milliseconds(cudaStream_t stream, int times, const std::function<void()>& submit);
double host_milliseconds(const std::function<void()>& work);

double median(std::vector<double> values);  // REQUIRES: there are some
double rounded(double value);               // to four digits, for JSON that is read
void finish(cudaStream_t stream);           // waits
int multiprocessors();

}  // namespace millrace::gpu
