// One sample as bytes, in the same form in memory and on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "millrace/sample.h"

namespace millrace {

// Stored form of an image's shape; all are 8-bit images of one frame (ImageShape::is_plain()).
struct EntryExtents {
  std::int32_t height, width, channels;
};

// (fixed part) (url) (member) (target_url) (numbers) (encoded or pixels) (encoded target or target's pixels). Little-endian,
// unaligned.
struct EntryHeader {
  std::uint64_t bytes;         // size of the whole entry
  std::uint64_t index;         // index of the sample in its source
  std::uint64_t content;       // Sample::content
  std::uint64_t offset;        // Sample::offset
  std::uint64_t first_bytes;   // encoded file, or pixels
  std::uint64_t second_bytes;  // target's bytes
  std::int32_t label;
  std::uint32_t url, member, target_url;  // lengths in characters
  std::uint32_t numbers;
  EntryExtents image;  // shape of the pixels; for encoded bytes Sample::decoded
  EntryExtents target;
  std::uint32_t pixels;  // 1 if decoded
  SourceMap source_map;  // maps the pixels to their source
};

// Counts pixels if the sample is decoded, else encoded bytes.
std::size_t entry_bytes(const Sample& sample);
void write_entry(const Sample& sample, std::uint8_t* out);  // writes entry_bytes(sample) bytes

// Fills the sample from an entry. Returns false and leaves the sample unchanged if the entry is inconsistent or belongs to
// another sample.
bool read_entry(std::span<const std::uint8_t> entry, Sample& sample);

}  // namespace millrace
