// Shapes and element types. Rank and type are run-time values, resolved once when an object is made, never in a loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace millrace {

enum class DataType : std::uint8_t { u8, i32, f32, bf16, u16 };  // u16: for images alone; no network computes in it

constexpr std::size_t size_of(DataType type) {  // bytes of an element
  switch (type) {
    case DataType::u8: return 1;
    case DataType::u16:
    case DataType::bf16: return 2;
    case DataType::i32:
    case DataType::f32: return 4;
  }
  return 0;
}
const char* to_string(DataType type);

// bfloat16 <-> float32 on the host; rounds to nearest, ties to even, keeps NaN.
std::uint16_t to_bf16(float value);
float from_bf16(std::uint16_t value);

// Up to six extents, outermost first. A network's activations are (N, C, H, W) or (N, C), whatever the backend's layout; images
// before the network are (H, W, C).
struct Shape {
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](int axis) { return extents_[static_cast<std::size_t>(axis)]; }
  void push_back(std::int64_t extent);
  std::int64_t elements() const;  // 1 for rank 0
  const std::int64_t* begin() const { return extents_.data(); }
  const std::int64_t* end() const { return extents_.data() + rank_; }
  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "32 x 3 x 3 x 3"

// The shape of images on an edge: (frames, height, width, channels), channels innermost. An extent of 0 is unknown until the
// image is read ("varies"). A stage receives 8-bit images of one frame, is_plain(), unless it declares any_image() (stage.h).
struct ImageShape {
  std::int32_t height = 0;
  std::int32_t width = 0;
  std::int32_t channels = 0;
  std::int32_t frames = 1;       // frames of a clip, in order; 1: an image
  DataType type = DataType::u8;  // element type in the machine's byte order: u8 or u16

  constexpr bool is_static() const { return height > 0 && width > 0 && channels > 0 && frames > 0; }
  constexpr bool is_plain() const { return type == DataType::u8 && frames == 1; }
  constexpr std::size_t elements() const {
    return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * static_cast<std::size_t>(channels) *
           static_cast<std::size_t>(frames);
  }
  constexpr std::size_t bytes() const { return elements() * size_of(type); }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

std::string to_string(const ImageShape& shape);  // "32 x 32 x 3", "? x ? x 3", "8 frames of 32 x 32 x 3, u16"

}  // namespace millrace
