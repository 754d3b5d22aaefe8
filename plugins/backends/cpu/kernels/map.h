// A kernel's view of a tensor of activations or gradients: logically (N, C, H, W), physically with 16 neighbouring channels
// contiguous. One description serves oneDNN's 16-channel blocks ([N][C/16][H][W][16], float32 under AVX-512) and channels last
// ([N][H][W][C], under AMX, and on processors with only AVX2, where oneDNN's own blocks have 8 channels and are not supported).
//
// Element (n, c, h, w) lies at data[n * stride_n + (c / 16) * stride_block + (h * width + w) * stride_pixel + c % 16]. A Map owns
// nothing. Strides count elements. Data are float32 or bf16; all arithmetic is float32, bf16 is for storage only.
#pragma once

#include <cstdint>

#include "millrace/backend/network.h"

namespace millrace::cpu {

struct Map {
  static constexpr std::int64_t kLanes = 16;

  void* data = nullptr;  // aligned to 64 bytes where blocked
  DataType type = DataType::f32;
  std::int64_t n = 0, channels = 0, height = 1, width = 1;
  std::int64_t stride_n = 0, stride_block = 0, stride_pixel = 0;
  bool padded = false;  // the last block has 16 channels in memory; writers write zeros past `channels`

  std::int64_t pixels() const { return height * width; }
  std::int64_t blocks() const { return (channels + kLanes - 1) / kLanes; }
  std::int64_t elements() const { return n * channels * pixels(); }  // logical elements

  // [N][C/16][H][W][16]
  static Map blocked(void* data, DataType type, std::int64_t n, std::int64_t channels, std::int64_t height, std::int64_t width) {
    const std::int64_t plane = height * width * kLanes;
    const std::int64_t blocks = (channels + kLanes - 1) / kLanes;
    return {data, type, n, channels, height, width, blocks * plane, plane, kLanes, true};
  }
  // [N][H][W][C]; with height = width = 1 also the rows of a linear layer, (N, C)
  static Map channels_last(void* data, DataType type, std::int64_t n, std::int64_t channels, std::int64_t height = 1,
                           std::int64_t width = 1) {
    return {data, type, n, channels, height, width, height * width * channels, kLanes, channels, false};
  }
};

}  // namespace millrace::cpu
