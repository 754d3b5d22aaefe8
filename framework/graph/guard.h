// Memory with known bytes around each piece, to detect stages that write outside their piece.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace millrace::flow {

// Pieces of one size. Different pieces may be used by different threads at once.
class GuardedMemory {
 public:
  static constexpr std::size_t kGuard = 64;  // minimum bytes before and after a piece

  using Allocate = std::function<std::shared_ptr<std::uint8_t[]>(std::size_t bytes)>;

  GuardedMemory() = default;  // no piece
  // `allocate`: null for ordinary memory.
  GuardedMemory(std::size_t pieces, std::size_t bytes, const Allocate& allocate = nullptr);

  bool empty() const { return pieces_ == 0; }
  std::size_t total() const { return pieces_ * stride(); }  // bytes, guards included
  std::uint8_t* piece(std::size_t index) const { return memory_.get() + index * stride() + kGuard; }
  std::shared_ptr<std::uint8_t[]> share(std::size_t index) const { return {memory_, piece(index)}; }

  void renew(std::size_t index);                // rewrites the guards of a piece
  std::string damage(std::size_t index) const;  // "3 bytes before it and 12 bytes after it"; "" if the guards are intact

 private:
  std::size_t behind() const { return kGuard + (kGuard - bytes_ % kGuard) % kGuard; }
  std::size_t stride() const { return kGuard + bytes_ + behind(); }

  std::shared_ptr<std::uint8_t[]> memory_;
  std::size_t pieces_ = 0, bytes_ = 0;
};

// A payload with guards around the memory of its slots.
class Guarded {
 public:
  virtual ~Guarded() = default;
  // Describes writes outside of slots [begin, begin + slots), or outside the memory of all slots; "" if there were none.
  virtual std::string damage(std::uint32_t begin, std::uint32_t slots) const = 0;
};

}  // namespace millrace::flow
