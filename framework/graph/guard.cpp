#include "graph/guard.h"

#include <fmt/format.h>

namespace millrace::flow {
namespace {

// Neither black nor white nor repetitive, so that almost any write changes it.
std::uint8_t canary(std::size_t i) { return static_cast<std::uint8_t>(0xa5 ^ (i * 29)); }

std::string bytes_text(std::size_t count, const char* where) {
  return fmt::format("{} byte{} {} it", count, count == 1 ? "" : "s", where);
}

}  // namespace

GuardedMemory::GuardedMemory(std::size_t pieces, std::size_t bytes, const Allocate& allocate) : pieces_(pieces), bytes_(bytes) {
  memory_ = allocate ? allocate(total()) : std::make_shared<std::uint8_t[]>(total());
  for (std::size_t index = 0; index < pieces; ++index) renew(index);
}

void GuardedMemory::renew(std::size_t index) {
  std::uint8_t* const begin = piece(index);
  for (std::size_t i = 0; i < kGuard; ++i) *(begin - 1 - i) = canary(i);
  for (std::size_t i = 0; i < behind(); ++i) begin[bytes_ + i] = canary(i);
}

std::string GuardedMemory::damage(std::size_t index) const {
  const std::uint8_t* const begin = piece(index);
  std::size_t before = 0, after = 0;
  for (std::size_t i = 0; i < kGuard; ++i) before += *(begin - 1 - i) != canary(i) ? 1 : 0;
  for (std::size_t i = 0; i < behind(); ++i) after += begin[bytes_ + i] != canary(i) ? 1 : 0;
  std::string text;
  if (before > 0) text = bytes_text(before, "before");
  if (after > 0) text += (before > 0 ? " and " : "") + bytes_text(after, "after");
  return text;
}

}  // namespace millrace::flow
