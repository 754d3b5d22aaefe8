#include "memory_region.h"

#include <sys/mman.h>

#include <new>

namespace millrace::cpu {

MemoryRegion::MemoryRegion(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  data_ = data;
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  if (bytes >= 4 * kHugePage) madvise(data_, bytes, MADV_HUGEPAGE);  // fewer TLB misses
}

MemoryRegion::~MemoryRegion() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace millrace::cpu
