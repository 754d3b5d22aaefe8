// Converts a batch's bytes to the network's input: executes each sample's augmentation record, then a view, looks up (byte / 255
// - mean) / deviation, adds the record's noise, and lays out, in one pass. The reference is apply_record() in millrace/sample.h.
#pragma once

#include "portable.h"

#include "millrace/kernels/noise.h"
#include "millrace/sample.h"

namespace millrace::cuda {

// Source coordinate for `at` on an axis of `size` pixels: mirrored, clamped, or -1 for the fill value. `unit`: target pixels per
// image pixel; mirroring is about the image's edge pixels for both.
MILLRACE_HD std::int32_t resolve_border(std::int32_t at, std::int32_t size, Border border, std::int32_t unit = 1) {
  if (at >= 0 && at < size) return at;
  if (border == Border::constant) return -1;
  if (border == Border::edge || size == 1) return at < 0 ? 0 : size - 1;
  const std::int32_t period = size == unit ? unit : 2 * (size - unit);
  at %= period;
  if (at < 0) at += period;
  return at < size ? at : period + unit - 1 - at;
}

// One axis of the record with the view: the stored coordinate for position `seen` in the window, or -1.
struct IngestAxis {
  std::int32_t stored, window;  // extents
  std::int32_t start, step;     // the record's
  std::int32_t unit = 1;        // see resolve_border()

  // The axis of a target with `scale` times the pixels, from start and step of its image's record. Same as target_record() in
  // millrace/sample.h.
  MILLRACE_HD static IngestAxis of_target(std::int32_t stored, std::int32_t window, std::int32_t start, std::int32_t step,
                                          std::int32_t scale) {
    return {stored * scale, window * scale, start * scale + (step < 0 ? scale - 1 : 0), step, scale};
  }
  MILLRACE_HD std::int32_t resolve(std::int32_t seen, Border of_view, Border of_record) const {
    const std::int32_t inside = resolve_border(seen, window, of_view);
    return inside < 0 ? -1 : resolve_border(start + step * inside, stored, of_record, unit);
  }
};

// A pixel (n, i, j) of the window. As in backend/backend.h's View: the record's window, shifted by (dx, dy) and mirrored.
template <class T>
struct Ingest {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "ingest";
  const std::uint8_t* pixels = nullptr;         // (samples, image_height, image_width, channels)
  const AugmentationRecord* records = nullptr;  // (count)
  const std::int32_t* index = nullptr;          // (count): index into `pixels` for each row; null: row n is sample n
  const float* table = nullptr;                 // (channels, 256): the normalised value of every byte
  T* out = nullptr;                             // (count, window_height, window_width, 8)
  std::int64_t samples = 0, count = 0;
  std::int32_t image_height = 0, image_width = 0, channels = 0;  // REQUIRES: channels <= 4
  std::int32_t window_height = 0, window_width = 0;
  std::int32_t dx = 0, dy = 0;
  bool flip_x = false;
  Border border = Border::reflect;  // the view's

  std::int64_t size() const { return count * window_height * window_width; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    const Division line = divide(i, window_width), image = divide(line.quotient, window_height);
    const std::int64_t n = image.quotient, sample = index == nullptr ? n : index[n];
    const auto row = static_cast<std::int32_t>(image.remainder), column = static_cast<std::int32_t>(line.remainder);
    const AugmentationRecord& record = records[n];
    const IngestAxis down{image_height, window_height, record.y, record.step_y};
    const IngestAxis right{image_width, window_width, record.x, record.step_x};
    const std::int32_t from_row = down.resolve(row - dy, border, record.border);
    const std::int32_t from_column = right.resolve((flip_x ? window_width - 1 - column : column) - dx, border, record.border);
    const bool inside = from_row >= 0 && from_column >= 0;
    const std::int64_t pixel = inside ? (sample * image_height + from_row) * image_width + from_column : 0;
    const std::uint8_t* const bytes = inside ? pixels + pixel * channels : record.fill;
    float values[kPack] = {};
    MILLRACE_UNROLL for (int c = 0; c < 4; ++c) {
      if (c < channels) values[c] = table[c * 256 + bytes[c]];
    }
    if (record.noise != 0) add_noise(record, (std::int64_t{row} * window_width + column) * channels, values);
    store(out + i * kPack, values);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    const std::int64_t image = std::int64_t{image_height} * image_width * channels;
    visit_read(v, pixels, (index == nullptr ? count : samples) * image);
    visit_read(v, records, count);
    visit_read(v, index, count);
    visit_read(v, table, std::int64_t{channels} * 256);
    visit_write(v, out, size() * kPack);
  }

 private:
  // `place`: index in the window of the pixel's first channel.
  MILLRACE_HD void add_noise(const AugmentationRecord& record, std::int64_t place, float* values) const {
    MILLRACE_UNROLL for (int c = 0; c < 4; ++c) {
      if (c >= channels) continue;
      const float grey_level = (table[c * 256 + 255] - table[c * 256]) / 255;
      values[c] += record.noise * grey_level * normal_deviate(record.noise_seed, static_cast<std::uint32_t>(place + c));
    }
  }
};

// A pixel (n, i, j) of the target image, transformed by its image's record: its class, or the result of ingest. Extents are the
// image's; the target has `scale` times as many rows and columns.
struct IngestTarget {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "ingest targets";
  const std::uint8_t* pixels = nullptr;         // (count, scale * image_height, scale * image_width, channels)
  const AugmentationRecord* records = nullptr;  // (count), the images'
  const float* table = nullptr;                 // as in Ingest
  float* out = nullptr;                         // (count, scale * window_height, scale * window_width, channels)
  std::int64_t count = 0;
  std::int32_t image_height = 0, image_width = 0, channels = 0;  // REQUIRES: channels <= 4
  std::int32_t window_height = 0, window_width = 0;
  std::int32_t scale = 1;
  bool classes = false;  // one channel; -1 for the ignored class, and outside
  std::uint8_t ignored = 0;

  std::int64_t size() const { return count * window_height * window_width * scale * scale; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    const Division line = divide(i, window_width * scale), image = divide(line.quotient, window_height * scale);
    const AugmentationRecord& record = records[image.quotient];
    const IngestAxis down = IngestAxis::of_target(image_height, window_height, record.y, record.step_y, scale);
    const IngestAxis right = IngestAxis::of_target(image_width, window_width, record.x, record.step_x, scale);
    const std::int32_t row = down.resolve(static_cast<std::int32_t>(image.remainder), Border::constant, record.border);
    const std::int32_t column = right.resolve(static_cast<std::int32_t>(line.remainder), Border::constant, record.border);
    const bool inside = row >= 0 && column >= 0;
    const std::int64_t pixel = inside ? (image.quotient * down.stored + row) * right.stored + column : 0;
    if (classes) {
      const std::uint8_t value = inside ? pixels[pixel] : ignored;
      out[i] = value == ignored ? -1.0F : static_cast<float>(value);
      return;
    }
    const std::uint8_t* const bytes = inside ? pixels + pixel * channels : record.fill;
    for (std::int32_t c = 0; c < channels; ++c) out[i * channels + c] = table[c * 256 + bytes[c]];
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, pixels, count * image_height * image_width * scale * scale * channels);
    visit_read(v, records, count);
    if (!classes) visit_read(v, table, std::int64_t{channels} * 256);
    visit_write(v, out, size() * channels);
  }
};

}  // namespace millrace::cuda
