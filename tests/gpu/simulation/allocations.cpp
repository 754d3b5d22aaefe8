#include "simulation/allocations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace millrace::cuda {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kGuard = 256;
constexpr std::byte kGuardByte{0xFD};

std::uintptr_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

}  // namespace

void Allocation::Free::operator()(std::byte* memory) const { std::free(memory); }

// calloc rather than memset: untouched pages of a large allocation cost nothing.
Allocation::Allocation(std::string name, std::size_t bytes, int machine, bool on_host)
    : name_(std::move(name)),
      bytes_(bytes),
      machine_(machine),
      on_host_(on_host),
      memory_(static_cast<std::byte*>(std::calloc(bytes + 2 * kGuard + kAlignment, 1))) {
  if (!memory_) throw std::bad_alloc();
  data_ = memory_.get() + kGuard;
  data_ += (kAlignment - address_of(data_) % kAlignment) % kAlignment;
  std::fill_n(data_ - kGuard, kGuard, kGuardByte);
  std::fill_n(data_ + bytes_, kGuard, kGuardByte);
}

bool Allocation::intact() const {
  const auto untouched = [](std::byte value) { return value == kGuardByte; };
  return std::all_of(data_ - kGuard, data_, untouched) && std::all_of(data_ + bytes_, data_ + bytes_ + kGuard, untouched);
}

std::shared_ptr<Allocation> Allocations::add(const std::string& what, std::size_t bytes, int machine, bool on_host) {
  const std::scoped_lock lock(mutex_);
  const int times = ++names_[what];
  const std::string name = times == 1 ? what : fmt::format("{} ({})", what, times);
  auto allocation = std::make_shared<Allocation>(name, bytes, machine, on_host);
  by_begin_[address_of(allocation->data())] = allocation;
  return allocation;
}

std::shared_ptr<Allocation> Allocations::find(const void* address) const {
  const std::scoped_lock lock(mutex_);
  auto above = by_begin_.upper_bound(address_of(address));
  if (above == by_begin_.begin()) return nullptr;
  const auto& [begin, allocation] = *--above;
  return address_of(address) < begin + allocation->bytes() ? allocation : nullptr;
}

std::shared_ptr<Allocation> Allocations::remove(const std::byte* data) {
  const std::scoped_lock lock(mutex_);
  const auto found = by_begin_.find(address_of(data));
  if (found == by_begin_.end()) return nullptr;
  std::shared_ptr<Allocation> removed = std::move(found->second);
  by_begin_.erase(found);
  return removed;
}

std::vector<std::shared_ptr<Allocation>> Allocations::all() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<Allocation>> result;
  for (const auto& [begin, allocation] : by_begin_) result.push_back(allocation);
  return result;
}

}  // namespace millrace::cuda
