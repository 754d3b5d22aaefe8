#include "cuda_queue.h"

#include "errors.h"
#include "launch.h"

namespace millrace::cuda {

// ---- Streams ----

namespace {

int device_of(const void* memory) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  return attributes.device;
}

}  // namespace

CudaStream::CudaStream(int device, const std::string& name) : device_(device), name_(name) {
  use_device(device);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

CudaStream::~CudaStream() {
  cudaSetDevice(device_);
  cudaStreamSynchronize(stream_);
  for (const auto& closed : at_close_) closed();
  cudaStreamDestroy(stream_);
}

void CudaStream::finish() const {
  use_device(device_);
  {
    std::unique_lock lock(mutex_);
    if (capturing_ == std::this_thread::get_id()) return;
    changed_.wait(lock, [this] { return capturing_ == std::thread::id(); });
    ++finishing_;
  }
  // A plugin may capture the guests' stream without notice.
  cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
  const cudaError_t asked = cudaStreamIsCapturing(stream_, &captured);
  const bool waits = asked == cudaSuccess && captured == cudaStreamCaptureStatusNone;
  const cudaError_t waited = waits ? cudaStreamSynchronize(stream_) : cudaSuccess;
  {
    const std::lock_guard lock(mutex_);
    --finishing_;
  }
  changed_.notify_all();
  check(asked, "cudaStreamIsCapturing");
  check(waited, "cudaStreamSynchronize");
}

void CudaStream::begin_capture() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return finishing_ == 0; });
  capturing_ = std::this_thread::get_id();
}

void CudaStream::end_capture() noexcept {
  {
    const std::lock_guard lock(mutex_);
    capturing_ = std::thread::id();
  }
  changed_.notify_all();
}

// ---- Recordings ----

CudaRecording::CudaRecording(std::shared_ptr<CudaStream> stream, cudaGraph_t graph, std::vector<Ref<RecordedMark>> marks)
    : stream_(std::move(stream)), marks_(std::move(marks)) {
  check(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
  const cudaError_t uploaded = cudaGraphUpload(executable_, stream_->native());  // otherwise the first launch would
  if (uploaded != cudaSuccess) cudaGraphExecDestroy(executable_);
  check(uploaded, "cudaGraphUpload");
}

CudaRecording::~CudaRecording() {
  cudaSetDevice(stream_->device());
  cudaStreamSynchronize(stream_->native());
  cudaGraphExecDestroy(executable_);
}

// ---- The queue ----

CudaQueue::CudaQueue(std::shared_ptr<CudaStream> stream, int multiprocessors, Reaches reaches)
    : stream_(std::move(stream)),
      multiprocessors_(multiprocessors),
      reaches_(std::move(reaches)),
      marks_(Marks::make(stream_->device())) {}

CudaQueue::~CudaQueue() {
  if (recording_) abandon_recording();
  cudaSetDevice(stream_->device());
  cudaStreamSynchronize(stream_->native());
  marks_->close();
}

template <class Call>
void CudaQueue::submit(const char* what, const Call& call) {
  try {
    use_device(stream_->device());
    call(stream_->native());
    if (recording_) check_recording();
  } catch (Error& error) {
    if (recording_) {
      abandon_recording();
      error.in(fmt::format("while recording '{}'", what));
    }
    error.in(fmt::format("CUDA device {}, queue '{}'", stream_->device(), stream_->name()));
    throw;
  }
}

void CudaQueue::copy_in(void* device, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  submit("copy in", [&](cudaStream_t stream) {
    check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync from the host");
  });
}

void CudaQueue::copy_out(void* host, const void* device, std::size_t bytes) {
  if (bytes == 0) return;
  submit("copy out", [&](cudaStream_t stream) {
    check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync to the host");
  });
}

void CudaQueue::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  // Memory of a pool that this device cannot access is copied only by cudaMemcpyPeerAsync, through the host. Recorded work stays
  // on the device.
  const bool as_peers = !recording_ && !(reaches_(to) && reaches_(from));
  submit("copy", [&](cudaStream_t stream) {
    if (as_peers) {
      check(cudaMemcpyPeerAsync(to, device_of(to), from, device_of(from), bytes, stream), "cudaMemcpyPeerAsync");
    } else {
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync on the device");
    }
  });
}

void CudaQueue::zero(void* to, std::size_t bytes) {
  if (bytes == 0) return;
  submit("zero", [&](cudaStream_t stream) { check(cudaMemsetAsync(to, 0, bytes, stream), "cudaMemsetAsync"); });
}

// REQUIRES: the plan is one of this machine's, hence a DevicePlan.
void CudaQueue::run(const LibraryRun& work) {
  submit("a library's plan", [&](cudaStream_t) {
    try {
      static_cast<const DevicePlan*>(work.plan)->execute(work, *stream_, *this);
    } catch (Error& error) {
      error.in(work.plan->engine());
      throw;
    }
  });
}

void CudaQueue::run(const Kernel& kernel, const void* element) {
  submit(kernel.name, [&](cudaStream_t stream) {
    const cudaError_t status = cuda::launch(kernel, element, stream, multiprocessors_);
    if (status != cudaSuccess) check(status, fmt::format("launching kernel '{}'", kernel.name));
  });
}

Ref<Mark> CudaQueue::mark() { return make_mark(false); }
Ref<Mark> CudaQueue::timed_mark() { return make_mark(true); }

Ref<Mark> CudaQueue::make_mark(bool timed) {
  Ref<CudaMark> mark;
  submit("mark", [&](cudaStream_t stream) {
    if (recording_) fail(ErrorKind::device, "mark() within a recording: recorded_mark() is meant");
    mark = marks_->record(stream, timed);
  });
  return mark;
}

void CudaQueue::wait(const Ref<Event>& mark) {
  if (!mark) return;
  submit("wait", [&](cudaStream_t stream) {
    if (recording_) fail(ErrorKind::device, "wait() within a recording: it would wait for one launch's work in all of them");
    wait_in(stream, mark);
  });
}

// ---- Recording ----

void CudaQueue::begin_recording() {
  submit("begin", [&](cudaStream_t stream) {
    if (recording_) fail(ErrorKind::device, "begin_recording() within a recording");
    // Thread-local: other threads can still allocate and synchronise, and only this one may record.
    stream_->begin_capture();
    const cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (status != cudaSuccess) stream_->end_capture();
    check(status, "cudaStreamBeginCapture");
    recording_ = true;
  });
}

Ref<Mark> CudaQueue::recorded_mark() {
  submit("recorded mark", [&](cudaStream_t stream) {
    if (!recording_) fail(ErrorKind::device, "recorded_mark() outside a recording");
    recorded_.push_back(marks_->record_external(stream));
  });
  return recorded_.back();
}

std::unique_ptr<Recording> CudaQueue::end_recording() {
  std::unique_ptr<Recording> recording;
  submit("end", [&](cudaStream_t) {
    if (!recording_) fail(ErrorKind::device, "end_recording() without begin_recording()");
    recording_ = false;
    cudaGraph_t graph = nullptr;
    std::vector<Ref<RecordedMark>> marks;
    marks.swap(recorded_);
    const cudaError_t status = cudaStreamEndCapture(stream_->native(), &graph);
    stream_->end_capture();
    check(status, "cudaStreamEndCapture");
    const std::unique_ptr<CUgraph_st, void (*)(cudaGraph_t)> owner(graph, [](cudaGraph_t made) { cudaGraphDestroy(made); });
    recording = std::make_unique<CudaRecording>(stream_, graph, std::move(marks));
  });
  return recording;
}

void CudaQueue::launch(Recording& recording) {
  submit("launch", [&](cudaStream_t stream) {
    const auto& ours = static_cast<const CudaRecording&>(recording);
    check(cudaGraphLaunch(ours.native(), stream), "cudaGraphLaunch");
    if (ours.marks().empty()) return;
    const Ref<CudaMark> end = marks_->record(stream);
    for (const Ref<RecordedMark>& mark : ours.marks()) mark->launched(end);
  });
}

// A library may violate the capture and still report success: detected here, at the call responsible.
void CudaQueue::check_recording() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_->native(), &status), "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusActive) fail(ErrorKind::device, "this call is forbidden in a stream capture");
}

void CudaQueue::abandon_recording() noexcept {
  recording_ = false;
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream_->native(), &graph);
  stream_->end_capture();
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
  recorded_.clear();
}

}  // namespace millrace::cuda
