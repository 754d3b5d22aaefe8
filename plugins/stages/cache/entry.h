// One sample as a run of bytes, the same in memory and on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "millrace/sample.h"

namespace millrace {

// As an image's shape is kept; all are 8-bit images of one frame (ImageShape::is_plain()).
struct EntryExtents {
  std::int32_t height, width, channels;
};

// (fixed part) (url) (member) (target_url) (numbers) (encoded or pixels) (encoded target or target's pixels). Little-endian,
// unaligned.
struct EntryHeader {
  std::uint64_t bytes;         // of the whole entry
  std::uint64_t index;         // of the sample in its source
  std::uint64_t content;       // Sample::content
  std::uint64_t offset;        // Sample::offset
  std::uint64_t first_bytes;   // encoded file, or pixels
  std::uint64_t second_bytes;  // of the target
  std::int32_t label;
  std::uint32_t url, member, target_url;  // characters
  std::uint32_t numbers;
  EntryExtents image;  // of the pixels; for encoded bytes Sample::decoded
  EntryExtents target;
  std::uint32_t pixels;  // 1: decoded
  SourceMap source_map;  // of the pixels
};

// Whether the sample has been decoded decides what is kept.
std::size_t entry_bytes(const Sample& sample);
void write_entry(const Sample& sample, std::uint8_t* out);  // entry_bytes(sample)

// Fills the sample from an entry. False when the entry contradicts itself or is of another sample; then the sample is unchanged.
bool read_entry(std::span<const std::uint8_t> entry, Sample& sample);

}  // namespace millrace
