// Checks file sizes from servers. They may be arbitrary, so nothing is allocated or added up before this check.
#pragma once

#include <cstdint>

namespace millrace {
class ByteBuffer;
}

namespace millrace::web {

inline constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 60U;  // sums of offsets and sizes stay within 64 bits
inline constexpr std::uint64_t kLargestRead = std::uint64_t{1} << 36U;  // 64 GiB, for a file that is read as a whole

// Returns `bytes`. Throws Error(data) above kLargestFile.
std::uint64_t checked_size(std::uint64_t bytes);

// Room for a whole file. Throws Error(data) above kLargestRead or the machine's memory, and std::bad_alloc.
std::uint8_t* room_for_file(ByteBuffer& out, std::uint64_t bytes);

}  // namespace millrace::web
