#include "idx_header.h"

#include <limits>

#include "millrace/error.h"

namespace millrace {

namespace {

constexpr std::uint8_t kUnsignedBytes = 0x08;

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24U | static_cast<std::uint32_t>(bytes[1]) << 16U |
         static_cast<std::uint32_t>(bytes[2]) << 8U | bytes[3];
}

}  // namespace

std::uint64_t IdxHeader::element() const {
  std::uint64_t product = 1;
  for (std::size_t i = 1; i < extents.size(); ++i) product *= extents[i];
  return product;
}

IdxHeader read_idx_header(std::span<const std::uint8_t> bytes, std::uint64_t file_bytes) {
  if (bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b)
    fail(ErrorKind::data, "the file is compressed: unpack it first (gunzip)");
  if (bytes.size() < 8 || bytes[0] != 0 || bytes[1] != 0)
    fail(ErrorKind::data, "this is no IDX file: it does not begin with two zeros, a type and a count");
  if (bytes[2] != kUnsignedBytes)
    fail(ErrorKind::data, "its elements are of type {:#04x}, expected {:#04x}: unsigned bytes", bytes[2], kUnsignedBytes);
  const std::size_t count = bytes[3];
  if (count < 1 || count > 4) fail(ErrorKind::data, "it has {} extents, expected 1 to 4", count);
  IdxHeader header;
  header.extents.resize(count);
  if (bytes.size() < header.bytes()) fail(ErrorKind::data, "truncated: it ends within its header, at byte {}", file_bytes);
  std::uint64_t wanted = 1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t extent = header.extents[i] = big_endian(bytes.data() + 4 + 4 * i);
    if (extent == 0) fail(ErrorKind::data, "one of its extents is 0");
    // No file is that long; and the remaining product stays within 64 bits.
    if (wanted > (std::numeric_limits<std::uint64_t>::max() >> 1U) / extent) fail(ErrorKind::data, "its extents make no sense");
    wanted *= extent;
  }
  const std::uint64_t have = file_bytes - header.bytes();
  if (have < wanted) fail(ErrorKind::data, "truncated: its header promises {} bytes, and {} follow", wanted, have);
  if (have > wanted) fail(ErrorKind::data, "its header promises {} bytes, and {} follow", wanted, have);
  return header;
}

}  // namespace millrace
