#include "millrace/batch.h"
#include "millrace/sample.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

#include "millrace/error.h"
#include "millrace/util/batch_input.h"
#include "millrace/util/batcher.h"
#include "millrace/util/centre.h"
#include "millrace/util/text.h"
#include "util/slot_hash.h"

namespace millrace {

namespace {

std::int16_t narrow(int coordinate) {
  assert(coordinate >= std::numeric_limits<std::int16_t>::min() && coordinate <= std::numeric_limits<std::int16_t>::max());
  return static_cast<std::int16_t>(coordinate);
}

// The origin of a record that yields the whole image from a record of a centred window. A window whose size differs by an odd
// number of pixels is half a pixel off the centre: mirroring about it would lose a line of the image at an edge.
std::int16_t of_whole(int at, int step, int extent, int window) {
  const int first = centred(extent, window);
  return narrow(at - step * first + (step < 0 ? extent - window - 2 * first : 0));
}

constexpr int kOutside = -1;

// Buffers that no sample needs at the moment. They stay with the thread: a chunk mostly stays on one thread from stage to stage,
// so a handful serves all samples of a batch, and their memory is warm.
class SpareBuffers {
 public:
  ByteBuffer take(std::size_t size) {
    for (ByteBuffer& spare : spares_) {
      if (spare.capacity() >= size) return std::exchange(spare, {});
    }
    return {};
  }

  // Keeps the largest buffers.
  void give(ByteBuffer& buffer) {
    if (buffer.capacity() == 0) return;
    const auto smallest = std::min_element(spares_.begin(), spares_.end(),
                                           [](const ByteBuffer& a, const ByteBuffer& b) { return a.capacity() < b.capacity(); });
    if (smallest->capacity() < buffer.capacity()) std::swap(*smallest, buffer);
    buffer = {};
  }

 private:
  std::array<ByteBuffer, 4> spares_;
};

thread_local SpareBuffers spare_buffers;

// Returns unused buffers to the thread.
template <class Plane>
void set(Plane& plane, const Image& image) {
  plane.image = image;
  for (ByteBuffer& buffer : plane.scratch) {
    if (buffer.data() != image.data) spare_buffers.give(buffer);
  }
}

// The stored coordinate, 0 ... extent - 1, used for `at`; kOutside if the fill value is used. `unit`: rows or columns of a target
// per pixel of its image, about whose edge pixels both are mirrored.
int resolve(int at, int extent, Border border, int unit) {
  if (at >= 0 && at < extent) return at;
  switch (border) {
    case Border::constant: return kOutside;
    case Border::edge: return at < 0 ? 0 : extent - 1;
    case Border::reflect: break;
  }
  const int period = extent == unit ? unit : 2 * (extent - unit);  // there and back, each edge pixel once
  const int phase = ((at % period) + period) % period;
  return phase < extent ? phase : period + unit - 1 - phase;
}

// Moves the record to a centred window.
void centre(AugmentationRecord& record, const ImageShape& image, const ImageShape& window) {
  record.x = narrow(record.x + centred(image.width, window.width));
  record.y = narrow(record.y + centred(image.height, window.height));
}

}  // namespace

std::uint8_t* ByteBuffer::resize(std::size_t size) {
  if (size > kMax) fail(ErrorKind::data, "{} bytes are more than a buffer can hold ({})", size, kMax);
  if (size > capacity_) {
    data_.reset();  // frees the old memory before allocating
    capacity_ = 0;
    size_ = 0;
    // Rounds up by at most a quarter, so that a slot with slowly growing files does not reallocate each time.
    const std::size_t grain = std::max<std::size_t>(std::bit_floor(size) / 4, 64);
    const std::size_t capacity = (size + grain - 1) / grain * grain;
    data_.reset(new std::uint8_t[capacity]);
    capacity_ = capacity;
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

void apply_record(const AugmentationRecord& record, const ImageView& image, ImageShape window, std::uint8_t* out) {
  assert(image.shape.channels == window.channels && window.channels <= 4);
  const auto channels = static_cast<std::size_t>(window.channels);
  const std::size_t stride = static_cast<std::size_t>(image.shape.width) * channels;
  // Columns from `first` to before `last` lie in the image and need no border rule.
  const bool forward = record.step_x > 0;
  const int first = std::clamp(forward ? -record.x : record.x - (image.shape.width - 1), 0, window.width);
  const int last = std::clamp(forward ? image.shape.width - record.x : record.x + 1, first, window.width);
  for (int i = 0; i < window.height; ++i) {
    const int row = resolve(record.y + record.step_y * i, image.shape.height, record.border, record.scale);
    const std::uint8_t* const pixels = image.data + static_cast<std::size_t>(std::max(row, 0)) * stride;
    const auto by_rule = [&](int begin, int end) {
      for (int j = begin; j < end; ++j, out += channels) {
        const int column = resolve(record.x + record.step_x * j, image.shape.width, record.border, record.scale);
        const bool inside = row != kOutside && column != kOutside;
        std::copy_n(inside ? pixels + static_cast<std::size_t>(column) * channels : record.fill, channels, out);
      }
    };
    if (row == kOutside) {
      by_rule(0, window.width);
      continue;
    }
    by_rule(0, first);
    const std::uint8_t* pixel =
        pixels + static_cast<std::ptrdiff_t>(record.x + record.step_x * first) * static_cast<std::ptrdiff_t>(channels);
    if (forward) {
      out = std::copy_n(pixel, static_cast<std::size_t>(last - first) * channels, out);
    } else {
      for (int j = first; j < last; ++j, pixel -= channels) out = std::copy_n(pixel, channels, out);
    }
    by_rule(last, window.width);
  }
}

AugmentationRecord target_record(const AugmentationRecord& record, const TargetSpec& target) {
  AugmentationRecord result = record;
  const int last = target.scale - 1;  // in the rows and columns that a pixel covers; comes first if the image is mirrored
  result.y = narrow(record.y * target.scale + (record.step_y < 0 ? last : 0));
  result.x = narrow(record.x * target.scale + (record.step_x < 0 ? last : 0));
  result.scale = static_cast<std::uint8_t>(target.scale);
  result.noise = 0;
  if (target.kind == TargetSpec::Kind::classes) std::fill(std::begin(result.fill), std::end(result.fill), target.ignored);
  return result;
}

const TargetSpec Sample::kNoTarget;

Image Sample::Plane::next(ImageShape shape) {
  if (shape == slot.shape && image.data != slot.data && slot.data != nullptr) return slot;
  ByteBuffer& buffer = scratch[image.data != nullptr && image.data == scratch[0].data() ? 1 : 0];
  if (buffer.capacity() < shape.bytes()) {
    spare_buffers.give(buffer);
    buffer = spare_buffers.take(shape.bytes());
  }
  return {buffer.resize(shape.bytes()), shape};
}

void Sample::Plane::reset(Image new_slot) {
  set(*this, {});
  slot = new_slot;
}

Image Sample::new_image(ImageShape shape) { return pixels_.next(shape); }
Image Sample::new_target(ImageShape shape) { return target_.next(shape); }

SourceMap SourceMap::behind(const AffineMap& to_this) const {
  return is_known() ? SourceMap{height, width, to_this.then(map)} : SourceMap{};
}

void Sample::set_image(const Image& image, const AffineMap& to_before) { set_image(image, source_map_.behind(to_before)); }

void Sample::set_image(const Image& image, const SourceMap& source) {
  set(pixels_, image);
  source_map_ = source;
  record = {};
  windowed = false;
  resident_ = false;
}

void Sample::set_target(const Image& target) { set(target_, target); }

void place_window(Sample& sample, ImageShape window) {
  if (sample.windowed) return;
  centre(sample.record, sample.image().shape, window);
  sample.windowed = true;
}

void execute_pending(Sample& sample, ImageShape window) {
  const ImageShape shape = sample.image().shape;
  if (sample.windowed && window.is_static()) {
    AugmentationRecord& record = sample.record;
    record.x = of_whole(record.x, record.step_x, shape.width, window.width);
    record.y = of_whole(record.y, record.step_y, shape.height, window.height);
  }
  sample.windowed = false;
  apply_pending(sample, shape);
}

void apply_pending(Sample& sample, ImageShape window) {
  const AugmentationRecord& record = sample.record;
  const ImageView image = sample.image();
  if (!window.is_static()) window = image.shape;
  if (record.is_identity() && (!sample.windowed || window == image.shape)) return;
  if (const Image& target = sample.target(); target.data != nullptr) {
    const Image out = sample.new_target(sample.target_spec().shape({window.height, window.width, image.shape.channels}));
    apply_record(target_record(record, sample.target_spec()), target, out.shape, out.data);
    sample.set_target(out);
  }
  const Image out = sample.new_image(window);
  apply_record(record, image, window, out.data);
  sample.set_image(out, record.to_stored());
}

std::string SampleOrigin::place() const { return line_text(member.empty() ? url : url + ": " + member); }

void Sample::reset(const SampleKey& new_key, Image slot, const TargetSpec& target, Image target_slot) {
  key = new_key;
  url.clear();
  member.clear();
  offset = 0;
  encoded.resize(0);
  encoded_target.resize(0);
  target_url.clear();
  decoded = {};
  label = -1;
  numbers.clear();
  record = {};
  noise = 0;
  noise_seed = 0;
  windowed = false;
  cached = false;
  content = 0;
  hash = first_hash = 0;
  fault.reset();
  resident_ = false;
  source_map_ = {};
  pixels_.reset(slot);
  target_.reset(target_slot);
  target_spec_ = &target;
}

SourceMap seen_source(const Sample& sample, ImageShape window) {
  AugmentationRecord record = sample.record;
  if (!sample.windowed && window.is_static()) centre(record, sample.image().shape, window);
  return sample.source_map().behind(record.to_stored());
}

void gather_rows(Batch& batch) {
  std::vector<float>& rows = batch.rows;
  rows.clear();
  std::fill_n(batch.row_offsets, batch.capacity() + 1, 0U);
  for (std::uint32_t slot = 0; slot < batch.capacity(); ++slot) {
    const std::vector<float>& numbers = batch.samples[slot].numbers;
    if (slot < batch.count && batch.weights[slot] > 0) rows.insert(rows.end(), numbers.begin(), numbers.end());
    batch.row_offsets[slot + 1] = static_cast<std::uint32_t>(rows.size() / batch.numbers_per_sample);
  }
  batch.numbers = rows.data();
}

SourceMap seen_source(const Batch& batch, std::uint32_t slot) {
  return batch.source_maps ? batch.source_maps[slot].behind(batch.records[slot].to_stored()) : SourceMap{};
}

std::uint64_t hash_of_slot(const Batch& batch, std::uint32_t slot, std::uint64_t number) {
  thread_local std::vector<std::uint8_t> seen;
  const auto hash_seen = [&](std::uint64_t hash, const AugmentationRecord& record, const ImageView& stored, ImageShape out) {
    seen.resize(std::max(seen.size(), out.bytes()));
    apply_record(record, stored, out, seen.data());
    return hash_bytes(seen.data(), out.bytes(), hash);
  };
  const ImageShape window = batch.window.is_static() ? batch.window : batch.image;
  const AugmentationRecord& record = batch.records[slot];
  std::uint64_t hash = combine(number, static_cast<std::uint64_t>(batch.labels[slot]));
  const Image image{const_cast<std::uint8_t*>(batch.pixels) + slot * batch.image.bytes(), batch.image};  // only read
  hash = hash_seen(hash, record, image, window);
  if (record.noise != 0) hash = combine(hash_bytes(&record.noise, sizeof record.noise, hash), record.noise_seed);
  if (batch.targets) {
    const Image target{batch.targets + slot * batch.target_bytes(), batch.target.shape(batch.image)};
    hash = hash_seen(hash, target_record(record, batch.target), target, batch.target.shape(window));
  }
  hash = hash_bytes(&batch.weights[slot], sizeof(float), hash);
  if (batch.numbers) {
    const std::uint32_t first = batch.row_offsets ? batch.row_offsets[slot] : slot;
    const std::uint32_t rows = batch.row_offsets ? batch.row_offsets[slot + 1] - first : 1;
    hash = hash_bytes(batch.numbers + std::size_t{first} * batch.numbers_per_sample,
                      std::size_t{rows} * batch.numbers_per_sample * sizeof(float), hash);
  }
  if (batch.shares) {
    hash = hash_bytes(&batch.shares[slot], sizeof(float), combine(hash, static_cast<std::uint64_t>(batch.second_labels[slot])));
  }
  return mix64(hash);
}

std::uint64_t hash_of_input(const Batch& batch) {
  std::uint64_t all = 0;
  for (std::uint32_t slot = 0; slot < batch.count; ++slot) all += hash_of_slot(batch, slot, slot);
  return all;
}

}  // namespace millrace
