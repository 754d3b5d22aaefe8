#include "fake_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "cuda_machine.h"
#include "launch.h"

struct CUstream_st {
  int number = 0;
  bool capturing = false, broken = false;
  std::vector<CUevent_st*> external;  // recorded by the current capture
};
struct CUevent_st {
  std::uint64_t ticket = 0;  // ticket of the work before it
};
struct CUgraph_st {
  std::vector<CUevent_st*> external;  // re-recorded by each launch
};
struct CUgraphExec_st : CUgraph_st {};

namespace millrace::cuda::fake {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> calls;
  std::map<std::string, cudaError_t> failures;
  std::set<std::string> invalidations;
  std::map<int, cudaError_t> failing_queries;  // by their number
  cudaError_t failed = cudaSuccess;
  cudaError_t last = cudaSuccess;
  bool held = false;
  std::uint64_t submitted = 0, finished = 0;
  int streams = 0, open = 0, queries = 0, device_of_memory = 0;
  std::map<const void*, int> device_of;
  std::size_t free = 1 << 20, total = 1 << 20, used = 0;
  std::map<void*, std::size_t> memory;
};
State& state() {
  static State one;
  return one;
}

// Logs a call and returns its result.
cudaError_t call(const std::string& text, CUstream_st* stream = nullptr) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.calls.push_back(stream == nullptr ? text : fmt::format("{} on {}", text, stream->number));
  for (auto failure = s.failures.begin(); failure != s.failures.end(); ++failure) {
    if (!text.starts_with(failure->first)) continue;
    s.last = failure->second;
    if (stream != nullptr && stream->capturing) stream->broken = true;
    s.failures.erase(failure);
    return s.last;
  }
  const auto breaks = std::find_if(s.invalidations.begin(), s.invalidations.end(),
                                   [&](const std::string& name) { return text.starts_with(name); });
  if (breaks != s.invalidations.end()) {
    stream->broken = true;
    s.invalidations.erase(breaks);
  }
  if (s.failed != cudaSuccess) s.last = s.failed;
  return s.failed;
}

template <class T>
void open(T** to) {
  *to = new T;
  ++state().open;
}
template <class T>
cudaError_t close(T* from) {
  delete from;
  --state().open;
  return cudaSuccess;
}

cudaError_t wait_for(std::uint64_t ticket) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return s.finished >= ticket || s.failed != cudaSuccess; });
  return s.failed;
}

void record(CUevent_st* event) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  event->ticket = ++s.submitted;
  if (!s.held) s.finished = s.submitted;
}

cudaError_t take(void** memory, std::size_t bytes) {
  State& s = state();
  if (s.used + bytes > s.free) {
    s.last = cudaErrorMemoryAllocation;
    return s.last;
  }
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  s.memory[*memory] = bytes;
  s.used += bytes;
  ++s.open;
  return cudaSuccess;
}

cudaError_t give(void* memory) {
  State& s = state();
  s.used -= s.memory[memory];
  s.memory.erase(memory);
  std::free(memory);
  --s.open;
  return cudaSuccess;
}

}  // namespace

void reset() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.calls.clear();
  s.failures.clear();
  s.device_of.clear();
  s.invalidations.clear();
  s.failing_queries.clear();
  s.failed = s.last = cudaSuccess;
  s.held = false;
  s.finished = s.submitted;
  s.streams = s.open = 0;
  s.free = s.total = 1 << 20;
  s.used = 0;
  s.memory.clear();
}
std::vector<std::string> calls() {
  const std::lock_guard lock(state().mutex);
  return state().calls;
}
bool called(const std::string& text) {
  const std::vector<std::string> all = calls();
  return std::find(all.begin(), all.end(), text) != all.end();
}
void fail_next(const std::string& text, cudaError_t status) { state().failures[text] = status; }
void invalidate_next(const std::string& text) { state().invalidations.insert(text); }
void fail_query(int number, cudaError_t status) {
  const std::lock_guard lock(state().mutex);
  state().failing_queries[state().queries + number] = status;
}
void fail_work(cudaError_t status) {
  const std::lock_guard lock(state().mutex);
  state().failed = status;
  state().changed.notify_all();
}
void hold() { state().held = true; }
void release() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.held = false;
  s.finished = s.submitted;
  s.changed.notify_all();
}
void finish_to(std::uint64_t recorded) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.finished = recorded;
  s.changed.notify_all();
}
std::uint64_t recorded() {
  const std::lock_guard lock(state().mutex);
  return state().submitted;
}
void set_memory(std::size_t free, std::size_t total) {
  state().free = free;
  state().total = total;
}
void lie_on(int device, const void* memory) {
  if (memory == nullptr)
    state().device_of_memory = device;
  else
    state().device_of[memory] = device;
}
int queries() {
  const std::lock_guard lock(state().mutex);
  return state().queries;
}
int open_things() { return state().open; }

}  // namespace millrace::cuda::fake

using namespace millrace::cuda;
using fake::call;
using fake::state;

// ---- The runtime's functions, with the toolkit's declarations ----

extern "C" {

cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return std::exchange(state().last, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t status) {
  return status == cudaErrorLaunchFailure ? "cudaErrorLaunchFailure" : "cudaErrorOther";
}
const char* cudaGetErrorString(cudaError_t) { return "acted out"; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 4 : 1;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const auto found = state().device_of.find(memory);
  *attributes = {};
  attributes->type = cudaMemoryTypeDevice;
  attributes->device = found == state().device_of.end() ? state().device_of_memory : found->second;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* value, int, int) {
  *value = 1;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  fake::open(stream);
  (*stream)->number = ++state().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return fake::close(stream); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const cudaError_t status = call("synchronise", stream);
  return status == cudaSuccess ? fake::wait_for(state().submitted) : status;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned) { return call("wait", stream); }
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = !stream->capturing ? cudaStreamCaptureStatusNone
            : stream->broken   ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream->capturing = true;
  stream->broken = false;
  stream->external.clear();
  return call("begin capture", stream);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const cudaError_t status = call("end capture", stream);
  stream->capturing = false;
  *graph = nullptr;
  if (stream->broken || status != cudaSuccess) return status == cudaSuccess ? cudaErrorStreamCaptureInvalidated : status;
  fake::open(graph);
  (*graph)->external = stream->external;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  fake::open(event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return fake::close(event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const cudaError_t status = call("record", stream);
  if (status == cudaSuccess) fake::record(event);
  return status;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  stream->external.push_back(event);
  return call(flags == cudaEventRecordExternal ? "record external" : "record", stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(state().mutex);
  if (const auto failing = state().failing_queries.find(++state().queries); failing != state().failing_queries.end())
    return failing->second;
  if (state().failed != cudaSuccess) return state().failed;
  if (state().finished >= event->ticket) return cudaSuccess;
  state().last = cudaErrorNotReady;
  return cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = static_cast<float>(end->ticket - begin->ticket);
  const std::lock_guard lock(state().mutex);
  return state().failed == cudaSuccess && state().finished < end->ticket ? cudaErrorNotReady : state().failed;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return fake::wait_for(event->ticket); }

cudaError_t cudaMemcpyAsync(void*, const void*, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  constexpr const char* kWhere[] = {"host to host", "in", "out", "on the device", "anywhere"};
  return call(fmt::format("copy {} {}", bytes, kWhere[kind]), stream);
}
cudaError_t cudaMemcpyPeerAsync(void*, int to, const void*, int from, std::size_t bytes, cudaStream_t stream) {
  return call(fmt::format("copy {} from device {} to {}", bytes, from, to), stream);
}
cudaError_t cudaMemsetAsync(void*, int, std::size_t bytes, cudaStream_t stream) {
  return call(fmt::format("zero {}", bytes), stream);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  *pool = reinterpret_cast<cudaMemPool_t>(&state());
  return call("make pool");
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return call("destroy pool"); }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return call("trim pool"); }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void* value) {
  *static_cast<std::uint64_t*>(value) = attribute == cudaMemPoolAttrReservedMemCurrent ? 5000 : 2000;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc* access, std::size_t) {
  return call(fmt::format("admit device {}", access->location.id));
}
cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t, cudaStream_t stream) {
  const cudaError_t status = call(fmt::format("allocate {}", bytes), stream);
  return status == cudaSuccess ? fake::take(memory, bytes) : status;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) { return fake::take(memory, bytes); }
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  call("free", stream);
  return fake::give(memory);
}
cudaError_t cudaFree(void* memory) { return fake::give(memory); }
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) { return fake::take(memory, bytes); }
cudaError_t cudaFreeHost(void* memory) { return fake::give(memory); }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = state().free - state().used;
  *total = state().total;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  const cudaError_t status = call("instantiate");
  if (status != cudaSuccess) return status;
  fake::open(executable);
  (*executable)->external = graph->external;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream) { return call("upload", stream); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const cudaError_t status = call("launch graph", stream);
  if (status != cudaSuccess) return status;
  for (CUevent_st* const event : executable->external) fake::record(event);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return fake::close(graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return fake::close(executable); }

}  // extern "C"

namespace millrace::cuda {

cudaError_t launch(const Kernel& kernel, const void*, cudaStream_t stream, int) {
  return call(fmt::format("launch {}", kernel.name), stream);
}

std::shared_ptr<const LibraryPlan> CudaMachine::plan(const ConvolutionShape&, const PlanChoice&) { return nullptr; }
std::shared_ptr<const LibraryPlan> CudaMachine::plan(const LinearShape&, const PlanChoice&) { return nullptr; }
std::string CudaMachine::plans(const PlanChoice&) { return {}; }

}  // namespace millrace::cuda
