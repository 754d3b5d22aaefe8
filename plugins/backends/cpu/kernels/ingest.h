// Converts a batch's bytes to the network's input on the CPU: executes each sample's augmentation record, then a view, scales and
// shifts by channel, adds the record's noise, and lays out, in one pass over the pixels. The reference is apply_record() in
// sample.h.
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/sample.h"

namespace millrace::cpu {

// (byte / 255 - mean) / deviation for every byte of every channel; computed once per network.
class PixelTable {
 public:
  PixelTable() = default;
  PixelTable(const std::vector<double>& mean, const std::vector<double>& deviation);  // by channel
  explicit PixelTable(const Network& network) : PixelTable(network.mean, network.deviation) {}
  const float* channel(std::int64_t c) const { return values_.data() + c * 256; }
  float grey_level(std::int64_t c) const { return (channel(c)[255] - channel(c)[0]) / 255; }  // one level's difference

 private:
  std::vector<float> values_;
};

// Layout of the input: element (n, c, h, w) is at data[n * stride_n + c * stride_c + h * stride_h + w * stride_w].
struct InputPlane {
  void* data = nullptr;
  DataType type = DataType::f32;  // or bf16
  std::int64_t channels = 0;      // in memory; those beyond the image's are written as zero (blocked and padded layouts)
  std::int64_t stride_n = 0, stride_c = 0, stride_h = 0, stride_w = 0;
};

// Samples [begin, begin + count) of the batch become rows 0 ... count-1. `view`: a second transform of the sample, or null: the
// pixel at (i, j) is the record's window at (i - dy, j' - dx), j' = width - 1 - j when mirrored, its border outside the window.
// Threading: the OpenMP team of the caller. REQUIRES: the table has the batch's channels, at most 4.
void ingest(const Batch& batch, std::uint32_t begin, std::uint32_t count, const View* view, const PixelTable& table,
            const InputPlane& out);

}  // namespace millrace::cpu
