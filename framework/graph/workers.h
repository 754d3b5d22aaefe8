// The threads behind Workers: a separate oneTBB arena, and a pool of threads that may block on a disk or network.
#pragma once

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_scheduler_observer.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "graph/graph.h"
#include "util/mutex.h"

namespace millrace {

// Runs posted work in order. Thread-safe. REQUIRES: posted work does not throw.
class IoPool {
 public:
  IoPool(int threads, const std::vector<int>& cores);
  ~IoPool();  // waits for the posted work
  void post(std::function<void()> work);
  int threads() const { return static_cast<int>(threads_.size()); }

 private:
  void loop();
  void close();

  Mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> work_ MILLRACE_GUARDED_BY(mutex_);
  bool closing_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// Pins every thread in the arena to the given cores while it is there.
class PinObserver : public tbb::task_scheduler_observer {
 public:
  PinObserver(tbb::task_arena& arena, std::vector<int> cores);
  ~PinObserver() override { observe(false); }
  void on_scheduler_entry(bool is_worker) override;
  void on_scheduler_exit(bool is_worker) override;

 private:
  std::vector<int> cores_;
};

struct Workers::State {
  State(int threads, int io_threads, const std::vector<int>& cores);

  int threads;
  // oneTBB starts one worker less than the allowed parallelism, since it counts the main thread, which only waits here.
  tbb::global_control parallelism;
  tbb::task_arena arena;
  std::unique_ptr<PinObserver> pin;
  IoPool io;
};

}  // namespace millrace
