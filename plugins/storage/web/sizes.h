// Sizes of files as servers say them. A server may say anything, so nothing is reserved or added up before it has passed here.
#pragma once

#include <cstdint>

namespace millrace {
class ByteBuffer;
}

namespace millrace::web {

inline constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 60U;  // sums of offsets and sizes stay within 64 bits
inline constexpr std::uint64_t kLargestRead = std::uint64_t{1} << 36U;  // 64 GiB, of a file that is read as a whole

// Returns `bytes`. Throws Error(data) for more than kLargestFile.
std::uint64_t checked_size(std::uint64_t bytes);

// Room for a whole file. Throws Error(data) for more than kLargestRead or the machine's memory, and std::bad_alloc.
std::uint8_t* room_for_file(ByteBuffer& out, std::uint64_t bytes);

}  // namespace millrace::web
