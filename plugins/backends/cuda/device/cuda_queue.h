// A queue of work on a CUDA device: one stream, its marks, and its current recording.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "marks.h"
#include "runtime/machine.h"

namespace millrace::cuda {

// A stream that does not wait for the default stream. Its destructor waits for its work, then calls the at_close() functions.
class CudaStream {
 public:
  CudaStream(int device, const std::string& name);
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t native() const { return stream_; }
  int device() const { return device_; }
  const std::string& name() const { return name_; }
  // Waits; throws Error(device). Waits first for another thread's capture of the stream, which would break if the stream were
  // synchronised meanwhile; ignores this thread's own capture, and a plugin's of the guests' stream: their work has not begun. (A
  // capture of mode cudaStreamCaptureModeThreadLocal tolerates all other calls of other threads, including allocation.)
  void finish() const;

  // For state that others keep by stream. `closed` must not throw. Call from the thread that submits to the stream.
  void at_close(std::function<void()> closed) { at_close_.push_back(std::move(closed)); }

  // Around a capture, by the thread that captures.
  void begin_capture();
  void end_capture() noexcept;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::thread::id capturing_;  // empty: no thread captures
  mutable int finishing_ = 0;  // threads

  const int device_;
  const std::string name_;
  cudaStream_t stream_ = nullptr;
  std::vector<std::function<void()>> at_close_;
};

// A CUDA graph, and the marks that its launches set. The destructor waits for its last launch.
class CudaRecording final : public Recording {
 public:
  CudaRecording(std::shared_ptr<CudaStream> stream, cudaGraph_t graph, std::vector<Ref<RecordedMark>> marks);
  ~CudaRecording() override;
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;
  cudaGraphExec_t native() const { return executable_; }
  const std::vector<Ref<RecordedMark>>& marks() const { return marks_; }

 private:
  std::shared_ptr<CudaStream> stream_;
  std::vector<Ref<RecordedMark>> marks_;
  cudaGraphExec_t executable_ = nullptr;
};

// Errors name the device, the queue and the call; errors of earlier work appear in a later call. A failing call ends the
// recording.
class CudaQueue final : public Queue {
 public:
  using Reaches = std::function<bool(const void* memory)>;  // Machine::reaches()
  CudaQueue(std::shared_ptr<CudaStream> stream, int multiprocessors, Reaches reaches);
  ~CudaQueue() override;

  void copy_in(void* device, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* device, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;  // also between devices
  void zero(void* to, std::size_t bytes) override;

  void run(const LibraryRun& work) override;
  using Queue::run;
  void run(const Kernel& kernel, const void* element) override;

  Ref<Mark> mark() override;
  Ref<Mark> timed_mark() override;
  void wait(const Ref<Event>& mark) override;

  // The first run of an element or a plan may load its code onto the device, which a capture forbids: recorded work must have run
  // once before.
  void begin_recording() override;
  Ref<Mark> recorded_mark() override;
  std::unique_ptr<Recording> end_recording() override;
  void launch(Recording& recording) override;

 private:
  Ref<Mark> make_mark(bool timed);
  template <class Call>
  void submit(const char* what, const Call& call);
  void check_recording() const;
  void abandon_recording() noexcept;

  const std::shared_ptr<CudaStream> stream_;
  const int multiprocessors_;
  const Reaches reaches_;
  const std::shared_ptr<Marks> marks_;
  bool recording_ = false;
  std::vector<Ref<RecordedMark>> recorded_;  // in the current recording
};

// The plans that CudaMachine::plan() returns, as CudaQueue::run(LibraryRun) uses them.
class DevicePlan : public LibraryPlan {
 public:
  // Submits the work to `stream`, which belongs to `queue` and to the current device. Elements that the library lacks (a bias, an
  // activation, a conversion) run on `queue` in order. Must not do anything that a stream capture forbids.
  virtual void execute(const LibraryRun& run, CudaStream& stream, Queue& queue) const = 0;
};

}  // namespace millrace::cuda
