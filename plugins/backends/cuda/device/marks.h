// Marks in a CUDA stream: events that come from a pool, and the thread that calls who waits for them.
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
  const bool timed_;  // keeps the time; made for itself, since marks are seldom timed
  cudaEvent_t event_ = nullptr;
};

// A mark in a recording, which each launch sets again. Streams wait for the point where it stands. The host waits for the end of
// the latest launch at the time of the call: CUDA's event stands for the next launch as soon as that one is submitted, while this
// one may still run. Complete before the first launch.
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
// Ownership: marks keep it alive; who made it calls close() before letting go of it.
// Threads: record() and record_external() by who submits to the stream; the rest by anybody.
class Marks : public std::enable_shared_from_this<Marks> {
 public:
  static std::shared_ptr<Marks> make(int device);
  ~Marks();
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  Ref<CudaMark> record(cudaStream_t stream, bool timed = false);
  // In a stream that is being captured: each launch of the graph records the event again. REQUIRES: the mark lives as long as the
  // graph.
  Ref<RecordedMark> record_external(cudaStream_t stream);

  // Calls everything that then() was given, and ends the thread. REQUIRES: the stream is idle or failed; not on that thread.
  // From then on then() waits by itself.
  void close();

  int device() const { return device_; }

 private:
  friend class CudaMark;
  struct Waiting {
    Ref<CudaMark> mark;
    Event::Callback done;
  };

  explicit Marks(int device) : device_(device) {}
  cudaEvent_t take();
  cudaEvent_t make_event(unsigned flags);
  void give_back(cudaEvent_t event) noexcept;
  bool add(Waiting& waiting);  // false when closed
  void loop();

  const int device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> spare_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool closed_ = false;
  std::thread thread_;
};

// Later work in `stream` starts after the event: on the device when the event is a mark of ours (of whichever device), by making
// the host wait when it is another backend's. null: nothing to wait for.
void wait_in(cudaStream_t stream, const Ref<Event>& event);

}  // namespace millrace::cuda
