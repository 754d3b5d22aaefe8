#include "guarded_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "planner.h"

namespace millrace::cpu {
namespace {

constexpr std::size_t kGuard = std::size_t{64} << 10;   // bytes between two parts
constexpr std::size_t kMargin = std::size_t{16} << 20;  // bytes of untouched pages before and after all parts
constexpr std::byte kPattern{0xff};

// True if these pages contain data; resets them to untouched.
bool take_writes(std::byte* pages, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present(bytes / page);
  if (::mincore(pages, bytes, present.data()) != 0) return false;
  for (std::size_t i = 0; i < present.size(); ++i) {
    const std::byte* const at = pages + i * page;
    if (present[i] == 0 || std::all_of(at, at + page, [](std::byte byte) { return byte == std::byte{0}; })) continue;
    ::madvise(pages, bytes, MADV_DONTNEED);
    return true;
  }
  return false;
}

}  // namespace

GuardedMemory::GuardedMemory(MemoryRegion& memory, std::vector<Part> parts) : parts_(std::move(parts)), bytes_(kGuard) {
  for (const Part& part : parts_) {
    offsets_.push_back(bytes_);
    bytes_ = aligned(bytes_ + part.bytes + kGuard);
  }
  const std::size_t least = round_up(bytes_, kGuard) + 2 * kMargin;  // whole pages
  if (memory.bytes() < least) {
    memory = MemoryRegion();
    memory = MemoryRegion(least);
    ::madvise(memory.as<std::byte>(), kMargin, MADV_NOHUGEPAGE);
    ::madvise(memory.as<std::byte>() + memory.bytes() - kMargin, kMargin, MADV_NOHUGEPAGE);
  }
  data_ = memory.as<std::byte>() + kMargin;
  behind_ = memory.as<std::byte>() + memory.bytes() - kMargin;
  std::memset(data_, static_cast<int>(kPattern), bytes_);
}

std::string GuardedMemory::damage() const {
  const auto intact = [&](std::size_t begin, std::size_t end) {
    return std::all_of(data_ + begin, data_ + end, [](std::byte byte) { return byte == kPattern; });
  };
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::size_t behind = i + 1 < parts_.size() ? offsets_[i + 1] : bytes_;
    if (i == 0 && !intact(0, offsets_[0])) return fmt::format("writes in front of the {}", parts_[i].name);
    if (!intact(end_of(i), behind)) return fmt::format("writes after the {}", parts_[i].name);
  }
  if (take_writes(data_ - kMargin, kMargin)) return "writes far before its memory";
  if (take_writes(behind_, kMargin)) return "writes far behind its memory";
  return {};
}

}  // namespace millrace::cpu
