// A run that outlives the command that started it.
#pragma once

#include <filesystem>
#include <functional>

namespace millrace::gpu {

// A lock on a file, held as long as this object or its process lives, however that ends.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& file);  // tries to take it, and writes this process's id into it
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

  bool held() const { return held_; }  // false: another process has it

 private:
  int file_ = -1;
  bool held_ = false;
};

// The process that holds the lock; 0: none does.
int holder_of(const std::filesystem::path& file);

// Runs `work` in a process of a session of its own, which a signal to this process's group does not reach. Its standard streams
// are /dev/null and `log`, so that a pipe of the caller ends with the caller. Returns when it holds `lock`, false when it does
// not come to that. What `work` returns is its exit status.
bool start_detached(const std::filesystem::path& lock, const std::filesystem::path& log, const std::function<int()>& work);

// Ends all processes of this user whose environment has MILLRACE_GPU_CHECK=`state`, that is: what a runner started.
void end_processes_of(const std::filesystem::path& state);

}  // namespace millrace::gpu
