// For sources of files: sizes from their listing, so that duplicate or missing samples are found without reading all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace millrace {

// A Source whose listing has sizes implements this too.
class KnowsFileSizes {
 public:
  virtual ~KnowsFileSizes() = default;

  // Size in bytes of a sample's image file, without its target's; 0 if unknown. Valid after open(). Thread-safe.
  virtual std::uint32_t file_bytes(std::uint64_t index) const = 0;

  // Whether the file was missing or unreadable when the samples were listed. Valid after open(). Thread-safe.
  virtual bool is_missing(std::uint64_t /*index*/) const { return false; }
};

// A size in four bytes: a listing of a million files stores one for each.
constexpr std::uint32_t saturated_size(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace millrace
