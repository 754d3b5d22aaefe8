#include "millrace/sample.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

namespace millrace {

namespace {

std::int16_t narrow(int coordinate) {
  assert(coordinate >= std::numeric_limits<std::int16_t>::min() && coordinate <= std::numeric_limits<std::int16_t>::max());
  return static_cast<std::int16_t>(coordinate);
}

constexpr int kOutside = -1;

// The stored coordinate, 0 ... extent - 1, that stands in for `at`; kOutside where the fill value does.
int resolve(int at, int extent, Border border) {
  if (at >= 0 && at < extent) return at;
  switch (border) {
    case Border::constant: return kOutside;
    case Border::edge: return at < 0 ? 0 : extent - 1;
    case Border::reflect: break;
  }
  if (extent == 1) return 0;
  const int period = 2 * (extent - 1);  // there and back, the edge pixels once each
  const int phase = ((at % period) + period) % period;
  return phase < extent ? phase : period - phase;
}

}  // namespace

std::uint8_t* ByteBuffer::resize(std::size_t size) {
  if (size > capacity_) {
    data_.reset();  // the old memory goes before the new comes
    capacity_ = 0;
    size_ = 0;
    data_.reset(new std::uint8_t[size]);
    capacity_ = size;
  }
  size_ = size;
  return data_.get();
}

void AugmentationRecord::flip_x(int width) {
  x = narrow(x + step_x * (width - 1));
  step_x = static_cast<std::int8_t>(-step_x);
}

void AugmentationRecord::flip_y(int height) {
  y = narrow(y + step_y * (height - 1));
  step_y = static_cast<std::int8_t>(-step_y);
}

void AugmentationRecord::translate(int dx, int dy) {
  x = narrow(x - step_x * dx);
  y = narrow(y - step_y * dy);
}

void apply_record(const AugmentationRecord& record, const Image& image, ImageShape window, std::uint8_t* out) {
  assert(image.shape.channels == window.channels && window.channels <= 4);
  const auto channels = static_cast<std::size_t>(window.channels);
  const std::size_t stride = static_cast<std::size_t>(image.shape.width) * channels;
  for (int i = 0; i < window.height; ++i) {
    const int row = resolve(record.y + record.step_y * i, image.shape.height, record.border);
    for (int j = 0; j < window.width; ++j, out += channels) {
      const int column = resolve(record.x + record.step_x * j, image.shape.width, record.border);
      const bool inside = row != kOutside && column != kOutside;
      const std::uint8_t* pixel =
          inside ? image.data + static_cast<std::size_t>(row) * stride + static_cast<std::size_t>(column) * channels
                 : record.fill;
      std::copy_n(pixel, channels, out);
    }
  }
}

Image Sample::new_image(ImageShape shape) {
  if (shape == slot_.shape && image_.data != slot_.data && slot_.data != nullptr) return slot_;
  ByteBuffer& buffer = scratch_[image_.data != nullptr && image_.data == scratch_[0].data() ? 1 : 0];
  return {buffer.resize(shape.bytes()), shape};
}

void Sample::set_image(const Image& image) {
  image_ = image;
  record = {};
  windowed = false;
}

void Sample::place_window(ImageShape window) {
  if (windowed) return;
  record.x = narrow(record.x + ((image_.shape.width - window.width) >> 1));
  record.y = narrow(record.y + ((image_.shape.height - window.height) >> 1));
  windowed = true;
}

void Sample::apply_pending(ImageShape window) {
  if (record.is_identity() && (!windowed || window == image_.shape)) return;
  const Image out = new_image(window);
  apply_record(record, image_, window, out.data);
  set_image(out);
}

void Sample::reset(const SampleKey& new_key, Image slot) {
  key = new_key;
  url.clear();
  encoded.resize(0);
  label = -1;
  record = {};
  windowed = false;
  hash = 0;
  fault.reset();
  image_ = {};
  slot_ = slot;
}

}  // namespace millrace
