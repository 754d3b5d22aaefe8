#include "kernels/ingest.h"

#include <cassert>

#include "millrace/kernels/noise.h"

namespace millrace::cpu {
namespace {

// Source coordinate for `at` on an axis of `size` pixels: mirrored, clamped, or -1 for the fill value.
std::int32_t resolve(std::int64_t at, std::int64_t size, Border border) {
  if (at >= 0 && at < size) return static_cast<std::int32_t>(at);
  if (border == Border::constant) return -1;
  if (border == Border::edge || size == 1) return static_cast<std::int32_t>(at < 0 ? 0 : size - 1);
  const std::int64_t period = 2 * (size - 1);
  at %= period;
  if (at < 0) at += period;
  return static_cast<std::int32_t>(at < size ? at : period - at);
}

struct Axis {
  std::int64_t stored, window;  // extents
  std::int64_t start, step;     // the record's
  std::int64_t shift;           // the view's
  bool mirrored;
};

// The stored coordinate, or -1, for each coordinate of the network's input.
void resolve_axis(const Axis& axis, Border record_border, Border view_border, std::vector<std::int32_t>& from) {
  from.resize(static_cast<std::size_t>(axis.window));
  for (std::int64_t i = 0; i < axis.window; ++i) {
    const std::int64_t seen = (axis.mirrored ? axis.window - 1 - i : i) - axis.shift;
    const std::int32_t inside = resolve(seen, axis.window, view_border);
    from[static_cast<std::size_t>(i)] = inside < 0 ? -1 : resolve(axis.start + axis.step * inside, axis.stored, record_border);
  }
}

void put(float* to, float value) { *to = value; }
void put(std::uint16_t* to, float value) { *to = to_bf16(value); }

struct Source {
  const std::uint8_t* pixels;
  ImageShape shape;
  const AugmentationRecord& record;
  const std::vector<std::int32_t>&rows, &columns;
};

template <class T>
void lay_out(const Source& source, const PixelTable& table, const InputPlane& out, T* sample) {
  const std::int64_t channels = source.shape.channels, width = source.shape.width;
  const auto columns = static_cast<std::int64_t>(source.columns.size());
  for (std::size_t i = 0; i < source.rows.size(); ++i) {
    T* const to_row = sample + static_cast<std::int64_t>(i) * out.stride_h;
    const std::int64_t row = source.rows[i];
    const std::uint8_t* const from_row = source.pixels + row * width * channels;
    for (std::int64_t c = 0; c < out.channels; ++c) {
      T* to = to_row + c * out.stride_c;
      if (c >= channels) {
        for (std::int64_t j = 0; j < columns; ++j, to += out.stride_w) *to = T{};
        continue;
      }
      const float* const values = table.channel(c);
      const float fill = values[source.record.fill[c]], noise = source.record.noise * table.grey_level(c);
      const auto value_at = [&](std::int64_t j) {
        const std::int64_t column = source.columns[static_cast<std::size_t>(j)];
        return row < 0 || column < 0 ? fill : values[from_row[column * channels + c]];
      };
      if (noise == 0) {
        for (std::int64_t j = 0; j < columns; ++j, to += out.stride_w) put(to, value_at(j));
        continue;
      }
      for (std::int64_t j = 0; j < columns; ++j, to += out.stride_w) {
        const std::int64_t place = (static_cast<std::int64_t>(i) * columns + j) * channels + c;
        put(to, value_at(j) + noise * normal_deviate(source.record.noise_seed, static_cast<std::uint32_t>(place)));
      }
    }
  }
}

}  // namespace

PixelTable::PixelTable(const std::vector<double>& mean, const std::vector<double>& deviation) {
  assert(mean.size() == deviation.size());
  values_.reserve(mean.size() * 256);
  for (std::size_t c = 0; c < mean.size(); ++c) {
    for (int byte = 0; byte < 256; ++byte) values_.push_back(static_cast<float>((byte / 255.0 - mean[c]) / deviation[c]));
  }
}

void ingest(const Batch& batch, std::uint32_t begin, std::uint32_t count, const View* view, const PixelTable& table,
            const InputPlane& out) {
  const View look = view != nullptr ? *view : View{};
  const ImageShape image = batch.image, window = batch.window;
#pragma omp parallel
  {
    std::vector<std::int32_t> rows, columns;
#pragma omp for schedule(static)
    for (std::int64_t n = 0; n < static_cast<std::int64_t>(count); ++n) {
      const std::size_t slot = begin + static_cast<std::size_t>(n);
      const AugmentationRecord& record = batch.records[slot];
      resolve_axis({image.height, window.height, record.y, record.step_y, look.dy, false}, record.border, look.border, rows);
      resolve_axis({image.width, window.width, record.x, record.step_x, look.dx, look.flip_x}, record.border, look.border,
                   columns);
      const Source source{batch.pixels + slot * image.bytes(), image, record, rows, columns};
      if (out.type == DataType::bf16) {
        lay_out(source, table, out, static_cast<std::uint16_t*>(out.data) + n * out.stride_n);
      } else {
        lay_out(source, table, out, static_cast<float*>(out.data) + n * out.stride_n);
      }
    }
  }
}

}  // namespace millrace::cpu
