// Marks in a CUDA stream: pooled events, and the thread that calls their callbacks.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "millrace/backend/backend.h"

namespace millrace::cuda {

class Marks;

// Thread-safe. An error of the device completes it, since CUDA keeps such an error and every later call meets it.
class CudaMark : public Event {
 public:
  explicit CudaMark(std::shared_ptr<Marks> marks, bool timed = false);
  ~CudaMark() override;
  bool complete() const override;
  void wait() const override;
  void then(Callback done) override;
  cudaEvent_t native() const { return event_; }

 private:
  std::shared_ptr<Marks> marks_;
  const bool timed_;  // measures time, which makes recording an event dearer
  cudaEvent_t event_ = nullptr;
};

// A mark in a recording, set again by each launch. Streams wait for its position. The host waits for the end of the latest launch
// at the time of the call: CUDA's event refers to the next launch as soon as that one is submitted, while this one may still run.
// Complete before the first launch.
class RecordedMark final : public CudaMark {
 public:
  using CudaMark::CudaMark;
  bool complete() const override;
  void wait() const override;
  void then(Callback done) override;
  void launched(Ref<CudaMark> end);

 private:
  Ref<CudaMark> end() const;

  mutable std::mutex mutex_;
  Ref<CudaMark> end_;  // null: not launched yet
};

// The marks of one stream: spare events, and a thread that starts with the first then() and waits in the order of those calls.
// Ownership: marks keep it alive; its creator calls close() before releasing it. Threading: record() and record_external() from
// the thread that submits to the stream; the rest from any thread.
class Marks : public std::enable_shared_from_this<Marks> {
 public:
  static std::shared_ptr<Marks> make(int device);
  ~Marks();
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  Ref<CudaMark> record(cudaStream_t stream, bool timed = false);
  // For a captured stream: each launch of the graph records the event again. REQUIRES: the mark lives as long as the graph.
  Ref<RecordedMark> record_external(cudaStream_t stream);

  // Calls all callbacks of then(), and ends the thread. REQUIRES: the stream is idle or failed; not called on that thread.
  // Afterwards then() waits by itself.
  void close();

  int device() const { return device_; }

 private:
  friend class CudaMark;
  struct Waiting {
    Ref<CudaMark> mark;
    Event::Callback done;
  };

  explicit Marks(int device) : device_(device) {}
  cudaEvent_t take(bool timed);
  void give_back(cudaEvent_t event, bool timed) noexcept;
  bool add(Waiting& waiting);  // false if closed
  void loop();

  const int device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> spare_[2];  // untimed, timed
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool closed_ = false;
  std::thread thread_;
};

// Later work in `stream` starts after the event: ordered on the device if the event is a mark of any CUDA device, by blocking the
// host if it belongs to another backend. null: does nothing.
void wait_in(cudaStream_t stream, const Ref<Event>& event);

}  // namespace millrace::cuda
