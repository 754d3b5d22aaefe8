// The header of an IDX file: two zeros, the type of the elements, the number of extents, and the extents, 32 bits each, the most
// significant byte first. The elements follow without a gap.
// Source: "The IDX file format" at http://yann.lecun.com/exdb/mnist
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

struct IdxHeader {
  static constexpr std::size_t kMost = 4 + 4 * 4;  // size of a header with four extents

  std::vector<std::uint32_t> extents;  // outermost first; 1 to 4 extents

  std::uint64_t bytes() const { return 4 + 4 * extents.size(); }  // size of the header
  std::uint64_t element() const;                                  // bytes of everything below the outermost extent
};

// `bytes`: the beginning of the file, kMost bytes or all of it; `file_bytes`: its size. Throws ErrorKind::data if it is not an
// IDX file of unsigned bytes, or its length differs from its header.
IdxHeader read_idx_header(std::span<const std::uint8_t> bytes, std::uint64_t file_bytes);

}  // namespace millrace
