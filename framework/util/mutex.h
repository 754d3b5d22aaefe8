// A mutex, and annotations for the data it guards. Clang checks them (-Wthread-safety: tests/thread_safety); for other compilers
// they are comments.
//
//   class Counter {
//    public:
//     void add() {
//       const Lock lock(mutex_);
//       ++count_;
//     }
//    private:
//     void add_one() MILLRACE_REQUIRES(mutex_) { ++count_; }  // the caller holds it
//     Mutex mutex_;
//     int count_ MILLRACE_GUARDED_BY(mutex_) = 0;
//   };
//
// The standard library's mutexes lack annotations for clang, so these wrap them, at no cost. Clang analyses one function at a
// time. A predicate passed to wait() would be a function without the lock, so write waits as loops:
//   while (!ready_) lock.wait(changed_);
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define MILLRACE_THREAD_SAFETY(...) __attribute__((__VA_ARGS__))
#else
#define MILLRACE_THREAD_SAFETY(...)
#endif
#define MILLRACE_GUARDED_BY(mutex) MILLRACE_THREAD_SAFETY(guarded_by(mutex))
#define MILLRACE_REQUIRES(mutex) MILLRACE_THREAD_SAFETY(requires_capability(mutex))

namespace millrace {

class MILLRACE_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  void lock() MILLRACE_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  void unlock() MILLRACE_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  bool try_lock() MILLRACE_THREAD_SAFETY(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class Lock;
  std::mutex mutex_;
};

// Holds a mutex during its lifetime, except between unlock() and lock().
class MILLRACE_THREAD_SAFETY(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) MILLRACE_THREAD_SAFETY(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  ~Lock() MILLRACE_THREAD_SAFETY(release_capability()) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() MILLRACE_THREAD_SAFETY(acquire_capability()) { lock_.lock(); }
  void unlock() MILLRACE_THREAD_SAFETY(release_capability()) { lock_.unlock(); }

  void wait(std::condition_variable& changed) { changed.wait(lock_); }
  // Returns false on timeout.
  template <class Clock, class Duration>
  bool wait_until(std::condition_variable& changed, const std::chrono::time_point<Clock, Duration>& end) {
    return changed.wait_until(lock_, end) == std::cv_status::no_timeout;
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace millrace
