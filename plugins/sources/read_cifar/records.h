// The binary files of CIFAR: records of equal length, one per image, without a header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/sample.h"

namespace millrace {

inline constexpr ImageShape kCifarImage{32, 32, 3};

// A record: the labels, one byte each (CIFAR-100: coarse, then fine), then the red, green and blue plane, row by row.
// Source: "Binary version" at https://www.cs.toronto.edu/~kriz/cifar.html
struct CifarFormat {
  static constexpr std::size_t kMostRecord = 2 + kCifarImage.bytes();
  std::uint32_t label_bytes = 1;
  std::uint32_t label_at = 0;  // which label is used
  std::int32_t classes = 10;

  std::uint64_t record() const { return label_bytes + kCifarImage.bytes(); }
};

// Detects the data set from the file's size; if both fit, from its name. Throws ErrorKind::data if neither fits: the file is
// truncated or of another kind. `fine`: CIFAR-100's hundred classes instead of the twenty.
CifarFormat cifar_format(std::string_view url, std::uint64_t bytes, bool fine);

// The class of each record; -1 if the byte is above the last class. REQUIRES: complete records.
void cifar_labels(const CifarFormat& format, std::span<const std::uint8_t> records, std::vector<std::int8_t>& labels);

// (3, 32, 32) -> (32, 32, 3)
void interleave_planes(const std::uint8_t* planes, std::uint8_t* pixels);

// The lines of a file of class names, without empty ones.
std::vector<std::string> name_lines(std::span<const std::uint8_t> text);

}  // namespace millrace
