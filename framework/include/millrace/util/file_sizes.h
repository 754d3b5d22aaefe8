// For sources of files: what their listing says of each, so that samples which may be equal, or are missing, are found without
// reading all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace millrace {

// A Source implements this too, where its listing says it.
class KnowsFileSizes {
 public:
  virtual ~KnowsFileSizes() = default;

  // Bytes of the file of a sample's image, without its target's; 0 when not known. Valid after open(). Thread-safe.
  virtual std::uint32_t file_bytes(std::uint64_t index) const = 0;

  // Whether there was no such file, or none that may be read, when the samples were listed. Valid after open(). Thread-safe.
  virtual bool is_missing(std::uint64_t /*index*/) const { return false; }
};

// A size in four bytes: a listing of a million files holds one of each.
constexpr std::uint32_t saturated_size(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace millrace
