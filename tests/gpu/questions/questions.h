// Questions that only a device can answer, and what they are asked with. Each is asked in a separate process, in which no CUDA
// call was made before. It prints each finding at once as one JSON object a line, so a crash or a hang loses only later findings.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "errors.h"
#include "millrace/backend/backend.h"
#include "millrace/batch.h"

namespace millrace::gpu {

using cuda::check;
using Json = nlohmann::ordered_json;

struct Asked {
  double seconds;       // that the answer should take; what is not reached by then is counted, not tried
  std::string rank_id;  // of the second process of "nccl": the file with NCCL's id
};

void say(const Json& finding);  // times are milliseconds where a key is or ends with `ms`

void ask_events(const Asked& asked);          // do waits hold that an event of a recording sets, launch after launch
void ask_nccl(const Asked& asked);            // can two processes add up on one device, and be ended
void ask_data_gradients(const Asked& asked);  // which engines add to what dx holds (beta = 1), how fast, and to which numbers
void ask_statistics(const Asked& asked);      // which engines sum a convolution's output as they write it (GENSTATS)

// ---- The first device: memory, streams and times that clean up after themselves. All throw Error(device).

struct Destroy {
  void operator()(void* memory) const { cudaFree(memory); }
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using Buffer = std::unique_ptr<void, Destroy>;
using Stream = std::unique_ptr<CUstream_st, Destroy>;
using Event = std::unique_ptr<CUevent_st, Destroy>;
using Graph = std::unique_ptr<CUgraph_st, Destroy>;
using GraphExec = std::unique_ptr<CUgraphExec_st, Destroy>;

inline Buffer make_buffer(std::size_t bytes) {  // zeroed
  void* data = nullptr;
  check(cudaMalloc(&data, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  Buffer buffer(data);
  check(cudaMemset(data, 0, bytes), "cudaMemset");
  return buffer;
}

inline Stream make_stream() {  // as the backend's are
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream(stream);
}

inline Event make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return Event(event);
}

inline void finish(const Stream& stream) { check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize"); }

// What `submit` submits to the stream, as a recording ready to be launched.
inline GraphExec record(const Stream& stream, const std::function<void()>& submit) {
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  submit();
  cudaGraph_t recorded = nullptr;
  check(cudaStreamEndCapture(stream.get(), &recorded), "cudaStreamEndCapture");
  const Graph graph(recorded);
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, graph.get(), 0), "cudaGraphInstantiate");
  GraphExec result(executable);
  check(cudaGraphUpload(executable, stream.get()), "cudaGraphUpload");
  finish(stream);
  return result;
}

class Stopwatch {
 public:
  double ms() const { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The least of some times that the device takes for what `submit` submits.
inline double best_ms(const Stream& stream, int times, const std::function<void()>& submit) {
  const Event begin = make_event(cudaEventDefault), end = make_event(cudaEventDefault);
  float best = std::numeric_limits<float>::infinity();
  for (int i = 0; i < times; ++i) {
    check(cudaEventRecord(begin.get(), stream.get()), "cudaEventRecord");
    submit();
    check(cudaEventRecord(end.get(), stream.get()), "cudaEventRecord");
    check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "cudaEventElapsedTime");
    best = std::min(best, ms);
  }
  return static_cast<double>(best);
}

}  // namespace millrace::gpu
