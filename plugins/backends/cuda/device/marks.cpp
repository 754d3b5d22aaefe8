#include "marks.h"

#include <pthread.h>

#include "errors.h"

namespace millrace::cuda {
namespace {

constexpr const char* kWaiting = "waiting for the device (cudaEventSynchronize)";

void report(cudaError_t status, const Event::Callback& done) {
  const std::optional<Error> failure = error_of(status, kWaiting);
  done(failure ? &*failure : nullptr);
}

}  // namespace

CudaMark::CudaMark(std::shared_ptr<Marks> marks, bool timed)
    : marks_(std::move(marks)), timed_(timed), event_(marks_->take(timed)) {}

CudaMark::~CudaMark() { marks_->give_back(event_, timed_); }

// Any thread may query: one that never chose a device would open device 0 with its first call.
bool CudaMark::complete() const {
  cudaSetDevice(marks_->device());
  const cudaError_t status = cudaEventQuery(event_);
  if (status != cudaSuccess) cudaGetLastError();  // "not ready" is also stored as this thread's last error
  return status != cudaErrorNotReady;
}

void CudaMark::wait() const {
  use_device(marks_->device());
  check(cudaEventSynchronize(event_), kWaiting);
}

void CudaMark::then(Callback done) {
  cudaSetDevice(marks_->device());
  cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    Marks::Waiting waiting{Ref<CudaMark>(this), std::move(done)};
    if (marks_->add(waiting)) return;
    done = std::move(waiting.done);
    status = cudaEventSynchronize(event_);
  }
  report(status, done);
}

bool RecordedMark::complete() const {
  const Ref<CudaMark> latest = end();
  return !latest || latest->complete();
}

void RecordedMark::wait() const {
  if (const Ref<CudaMark> latest = end()) latest->wait();
}

void RecordedMark::then(Callback done) {
  if (const Ref<CudaMark> latest = end()) return latest->then(std::move(done));
  done(nullptr);
}

void RecordedMark::launched(Ref<CudaMark> end) {
  const std::lock_guard lock(mutex_);
  end_ = std::move(end);
}

Ref<CudaMark> RecordedMark::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

std::shared_ptr<Marks> Marks::make(int device) { return std::shared_ptr<Marks>(new Marks(device)); }

Marks::~Marks() {
  cudaSetDevice(device_);
  for (const auto& spare : spare_) {
    for (cudaEvent_t event : spare) cudaEventDestroy(event);
  }
}

Ref<CudaMark> Marks::record(cudaStream_t stream, bool timed) {
  auto mark = make_ref<CudaMark>(shared_from_this(), timed);
  check(cudaEventRecord(mark->native(), stream), "cudaEventRecord");
  return mark;
}

Ref<RecordedMark> Marks::record_external(cudaStream_t stream) {
  auto mark = make_ref<RecordedMark>(shared_from_this());
  check(cudaEventRecordWithFlags(mark->native(), stream, cudaEventRecordExternal), "cudaEventRecordWithFlags");
  return mark;
}

void Marks::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

cudaEvent_t Marks::take(bool timed) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<cudaEvent_t>& spare = spare_[timed ? 1 : 0];
    if (!spare.empty()) {
      cudaEvent_t event = spare.back();
      spare.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  use_device(device_);
  const unsigned flags = cudaEventBlockingSync | (timed ? 0U : cudaEventDisableTiming);  // waiting threads sleep
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return event;
}

// A stream that waits for the event waits for its state at that time, so the event can be recorded again at once.
void Marks::give_back(cudaEvent_t event, bool timed) noexcept {
  const std::lock_guard lock(mutex_);
  spare_[timed ? 1 : 0].push_back(event);
}

bool Marks::add(Waiting& waiting) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  waiting_.push_back(std::move(waiting));
  changed_.notify_all();
  return true;
}

void Marks::loop() {
  pthread_setname_np(pthread_self(), "cuda marks");
  cudaSetDevice(device_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    report(cudaEventSynchronize(next.mark->native()), next.done);
    next = {};
    lock.lock();
  }
}

void wait_in(cudaStream_t stream, const Ref<Event>& event) {
  if (!event) return;
  if (const auto* mark = dynamic_cast<const CudaMark*>(event.get())) {
    check(cudaStreamWaitEvent(stream, mark->native(), cudaEventWaitDefault), "cudaStreamWaitEvent");
  } else {
    event->wait();
  }
}

}  // namespace millrace::cuda
