// A range of zeroed memory directly from the operating system: it costs nothing until touched, and is returned as a whole.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>

namespace millrace::cpu {

class MemoryRegion {
 public:
  MemoryRegion() = default;
  explicit MemoryRegion(std::size_t bytes);  // throws std::bad_alloc if there is not enough memory
  MemoryRegion(MemoryRegion&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryRegion& operator=(MemoryRegion&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryRegion();

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Works on such memory at once, as the Queue of backend/store_plan.h.
struct HostQueue {
  static void zero(void* to, std::size_t bytes) { std::memset(to, 0, bytes); }
  static void copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
};
inline constexpr HostQueue host_queue;

}  // namespace millrace::cpu
