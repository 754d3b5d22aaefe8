#include "guarded_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "planner.h"

namespace millrace::cpu {
namespace {

constexpr std::size_t kGuard = std::size_t{64} << 10;  // bytes between two parts
constexpr std::byte kPattern{0xff};

}  // namespace

GuardedMemory::GuardedMemory(MemoryRegion& memory, std::vector<Part> parts) : parts_(std::move(parts)), bytes_(kGuard) {
  for (const Part& part : parts_) {
    offsets_.push_back(bytes_);
    bytes_ = aligned(bytes_ + part.bytes + kGuard);
  }
  if (memory.bytes() < bytes_) {
    memory = MemoryRegion();
    memory = MemoryRegion(bytes_);
  }
  data_ = memory.as<std::byte>();
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
  return {};
}

}  // namespace millrace::cpu
