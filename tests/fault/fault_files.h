// Handles calls that reach the folder of FAULT_FILES_FOLDER.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

// The function of this name that would be called without this library.
#define REAL(name) static auto* const real = reinterpret_cast<decltype(&::name)>(::dlsym(RTLD_NEXT, #name))

namespace fault_files {

struct Call {
  std::string name;
  int descriptor = -1;
  std::int64_t offset = 0;
  std::string_view data = {};  // the bytes to write
  int flags = 0;               // for open
  std::string path = {}, second = {};

  bool reads() const { return name == "open" && (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) == 0; }
  bool frees() const { return name == "unlink" || name == "rmdir" || name == "ftruncate" || name == "truncate"; }
};

enum class Action { none, fail, fill, halve, slow, end_before, end_after, end_within };

// A fault of calls.
struct Fault {
  Action action = Action::none;
  int error = 0;  // the error of failing calls
};

class Faults {
 public:
  static Faults& get() {
    static auto* const faults = new Faults;  // never destroyed: files are closed until the very end
    return *faults;
  }

  std::string watched(int folder, const char* path) const;
  bool watches(int descriptor) const { return descriptor >= 0 && descriptor < kMax && descriptors_[index(descriptor)]; }
  void watch(int descriptor, bool on) {
    if (descriptor >= 0 && descriptor < kMax) descriptors_[index(descriptor)] = on;
  }
  // `make` makes the call with this data, and returns its result, negative with errno on failure.
  ssize_t handle(Call call, const std::function<ssize_t(std::string_view data)>& make);

 private:
  static constexpr int kMax = 1 << 16;
  static std::size_t index(int descriptor) { return static_cast<std::size_t>(descriptor); }
  Faults();
  Fault fault_now();
  bool can_fail(const Call& call, int error) const;
  void log(const Call& call, int error) const;
  std::string relative(const std::string& path) const {
    return path.size() > folder_.size() ? path.substr(folder_.size() + 1) : path.empty() ? "" : ".";
  }

  const std::string folder_, name_, control_;
  const Fault fault_;
  int log_ = -1;
  long first_ = 0, last_ = -1, count_ = 0;
  bool filled_ = false;  // the disk took half of a write, and is full
  std::mutex mutex_;     // keeps the log in the order of the calls
  std::array<std::atomic<bool>, kMax> descriptors_{};
};

}  // namespace fault_files
