#include "millrace/detail/tensor.h"

#include <fmt/format.h>

#include <bit>
#include <cassert>

namespace millrace {

const char* to_string(DataType type) {
  switch (type) {
    case DataType::u8: return "u8";
    case DataType::u16: return "u16";
    case DataType::i32: return "i32";
    case DataType::f32: return "f32";
    case DataType::bf16: return "bf16";
  }
  return "unknown";
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);  // NaN stays NaN
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

float from_bf16(std::uint16_t value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16); }

Shape::Shape(std::initializer_list<std::int64_t> extents) {
  for (const std::int64_t extent : extents) push_back(extent);
}

void Shape::push_back(std::int64_t extent) {
  assert(rank_ < kMaxRank);
  extents_[static_cast<std::size_t>(rank_++)] = extent;
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : *this) product *= extent;
  return product;
}

bool operator==(const Shape& a, const Shape& b) {
  if (a.rank_ != b.rank_) return false;
  for (int axis = 0; axis < a.rank_; ++axis) {
    if (a[axis] != b[axis]) return false;
  }
  return true;
}

std::string to_string(const Shape& shape) { return fmt::format("{}", fmt::join(shape.begin(), shape.end(), " x ")); }

std::string to_string(const ImageShape& shape) {
  const auto text = [](std::int32_t extent) { return extent > 0 ? std::to_string(extent) : std::string("?"); };
  const std::string frames = shape.frames == 1 ? "" : text(shape.frames) + " frames of ";
  const std::string type = shape.type == DataType::u8 ? "" : std::string(", ") + to_string(shape.type);
  return frames + text(shape.height) + " x " + text(shape.width) + " x " + text(shape.channels) + type;
}

}  // namespace millrace
