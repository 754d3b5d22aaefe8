#include "graph/workers.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "millrace/util/on_threads.h"
#include "millrace/util/telemetry.h"
#include "util/crash_stack.h"
#include "util/thread_name.h"

namespace millrace {
namespace {

void pin_this_thread(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // a failure (cores taken away meanwhile) only costs speed
}

// The thread's affinity before it entered a pinned arena: the main thread must not stay pinned after wait().
thread_local cpu_set_t cores_before;

}  // namespace

IoPool::IoPool(int threads, const std::vector<int>& cores) {
  try {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, cores] {
        if (!cores.empty()) pin_this_thread(cores);
        loop();
      });
    }
  } catch (...) {  // no more can be started: the running ones end first
    close();
    throw;
  }
}

IoPool::~IoPool() { close(); }

void IoPool::close() {
  {
    const Lock lock(mutex_);
    closing_ = true;
  }
  posted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void IoPool::post(std::function<void()> work) {
  {
    const Lock lock(mutex_);
    work_.push_back(std::move(work));
  }
  posted_.notify_one();
}

void IoPool::loop() {
  name_this_thread("io");
  use_crash_stack();
  while (true) {
    std::function<void()> work;
    {
      Lock lock(mutex_);
      while (!closing_ && work_.empty()) lock.wait(posted_);
      if (work_.empty()) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
}

PinObserver::PinObserver(tbb::task_arena& arena, std::vector<int> cores)
    : tbb::task_scheduler_observer(arena), cores_(std::move(cores)) {
  observe(true);
}

void PinObserver::on_scheduler_entry(bool) {
  pthread_getaffinity_np(pthread_self(), sizeof cores_before, &cores_before);
  pin_this_thread(cores_);
}

void PinObserver::on_scheduler_exit(bool) { pthread_setaffinity_np(pthread_self(), sizeof cores_before, &cores_before); }

// oneTBB starts its threads when there is work for them, and aborts the process if that fails. So all are started here, after a
// trial of as many threads.
void start_workers(tbb::task_arena& arena, int threads) {
  try_threads(static_cast<std::size_t>(threads));
  static constexpr auto kPatience = std::chrono::seconds(1);  // for what oneTBB may have reasons to leave out
  struct Meeting {
    Mutex mutex;
    std::condition_variable arrived;
    int missing MILLRACE_GUARDED_BY(mutex);
    explicit Meeting(int threads) : missing(threads) {}
    void wait() {
      const auto end = std::chrono::steady_clock::now() + kPatience;
      Lock lock(mutex);
      while (missing > 0 && lock.wait_until(arrived, end)) continue;
    }
    void arrive() {
      {
        const Lock lock(mutex);
        if (--missing <= 0) arrived.notify_all();
      }
      wait();
    }
  };
  const auto meeting = std::make_shared<Meeting>(threads);
  for (int i = 0; i < threads; ++i) arena.enqueue([meeting] { meeting->arrive(); });
  meeting->wait();
}

Workers::State::State(int worker_threads, int io_threads, const std::vector<int>& cores)
    : threads(std::max(worker_threads, 1)),
      parallelism(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads) + 1),
      arena(threads, 0),
      io(std::max(io_threads, 1), cores) {
  if (!cores.empty()) pin = std::make_unique<PinObserver>(arena, cores);
  start_workers(arena, threads);
  seconds_per_tick();  // calibrates the clock here, rather than in the middle of a run
}

Workers::Workers(int threads, int io_threads, std::vector<int> cores)
    : state_(std::make_unique<State>(threads, io_threads, cores)) {}

Workers::~Workers() = default;

int Workers::threads() const { return state_->threads; }

}  // namespace millrace
