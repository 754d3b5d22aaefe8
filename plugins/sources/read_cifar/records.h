// The binary files of CIFAR: records of one length, one for each image, without any header.
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
  std::uint32_t label_at = 0;  // which of them counts
  std::int32_t classes = 10;

  std::uint64_t record() const { return label_bytes + kCifarImage.bytes(); }
};

// Which of the two a file is, by its size; where both fit, by its name. Throws ErrorKind::data when neither fits: it is cut off,
// or something else. `fine`: of CIFAR-100, the hundred classes instead of the twenty.
CifarFormat cifar_format(std::string_view url, std::uint64_t bytes, bool fine);

// The class of each record; -1 where the byte is above the last class. REQUIRES: whole records.
void cifar_labels(const CifarFormat& format, std::span<const std::uint8_t> records, std::vector<std::int8_t>& labels);

// (3, 32, 32) -> (32, 32, 3)
void interleave_planes(const std::uint8_t* planes, std::uint8_t* pixels);

// The lines of a file of class names; empty lines do not count.
std::vector<std::string> name_lines(std::span<const std::uint8_t> text);

}  // namespace millrace
