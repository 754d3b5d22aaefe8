#include "millrace/loss.h"
#include "millrace/batch.h"

#include <algorithm>

#include "millrace/error.h"

namespace millrace {
namespace {

std::string text_of(const Shape& shape) {
  std::string text;
  for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i == 0 ? "" : " x ", shape[i]);
  return text;
}

// The targets' scale relative to the input, for messages.
std::string times_of(const LossSetting& s) {
  if (s.target.scale == 1) return {};
  return fmt::format(" ({} times the input's {} x {})", s.target.scale, s.window.height, s.window.width);
}

// The `scale` to set in the source, if its targets would then have the output's size.
std::string scale_for(const LossSetting& s) {
  const std::int64_t height = s.window.height, width = s.window.width;
  if (s.target.scale != 1 || s.output.rank() != 3 || height == 0 || s.output[1] <= height) return {};
  const std::int64_t scale = s.output[1] / height;
  if (scale > TargetSpec::kMaxScale || s.output[1] != scale * height || s.output[2] != scale * width) return {};
  return fmt::format("; target_scale = {} in the source, if they are as large as the output", scale);
}

void check_labelled(const std::string& name, const LossSetting& s) {
  if (s.output.elements() != s.output[0]) {
    fail(ErrorKind::usage, "loss '{}' takes one output per class, but the network's output is {}", name, text_of(s.output));
  }
  if (s.classes <= s.output[0]) return;
  fail(ErrorKind::usage,
       "the data have {0} classes, the network {1} output{2}: remove network.classes, or set it to {0}; without that key, "
       "give the last layer {0} outputs",
       s.classes, s.output[0], s.output[0] == 1 ? "" : "s");
}

void check_classes(const std::string& name, const LossSetting& s) {
  if (s.target.kind != TargetSpec::Kind::classes) {
    fail(ErrorKind::usage, "loss '{}' needs label images of class indices, but the source has none", name);
  }
  if (s.output.rank() == 1) {
    fail(ErrorKind::usage,
         "loss '{}' takes classes of pixels, but the network gives {} number{} for a whole image, as classifiers do: use a "
         "network whose output is a map, such as \"unet\" or \"deeplabv3_resnet50\"",
         name, s.output[0], s.output[0] == 1 ? "" : "s");
  }
  const ImageShape labels = s.target.shape(s.window);
  if (s.output.rank() != 3 || s.output[1] != labels.height || s.output[2] != labels.width) {
    fail(ErrorKind::usage, "loss '{}': the network's output is {}, but the label images are {} x {}{}: they must match{}", name,
         text_of(s.output), labels.height, labels.width, times_of(s), scale_for(s));
  }
  std::int64_t classes = 0;
  bool listed = false;  // otherwise values are class indices, which check_labels() checks
  for (std::size_t value = 0; value < 256; ++value) {
    const std::uint8_t as = s.target.classes[value];
    listed = listed || (as != value && value != s.target.ignored);
    if (as != s.target.ignored) classes = std::max<std::int64_t>(classes, as + 1);
  }
  if (!listed || classes <= s.output[0]) return;
  fail(ErrorKind::usage,
       "the label images name {0} classes, the network has {1} output channels: remove network.classes, or set it to {0}; "
       "without that key, give the last layer {0} channels",
       classes, s.output[0]);
}

void check_values(const std::string& name, const LossSetting& s) {
  if (s.target.kind == TargetSpec::Kind::image) {
    const ImageShape target = s.target.shape(s.window);
    const Shape wanted{target.channels, target.height, target.width};
    if (s.output == wanted) return;
    fail(ErrorKind::usage, "loss '{}': the network's output is {}, but the target images are {}{}: they must match{}", name,
         text_of(s.output), text_of(wanted), times_of(s), scale_for(s));
  }
  if (s.numbers == 0) {
    fail(ErrorKind::usage, "loss '{}' needs numbers or images as targets, but the source has neither", name);
  }
  if (s.output.elements() == s.numbers && s.output[0] == s.numbers) return;
  fail(ErrorKind::usage, "loss '{}': the network's output is {}, but each image has {} numbers: they must match", name,
       text_of(s.output), s.numbers);
}

std::string place_of(const Batch& batch, std::uint32_t slot) {
  if (batch.samples.empty()) return fmt::format("number {} of the batch", slot);
  return fmt::format("'{}'", batch.samples[slot].place());
}

void check_label_images(const Batch& batch, std::uint32_t begin, std::uint32_t count, std::int64_t classes) {
  const std::size_t bytes = batch.target_bytes();
  for (std::uint32_t slot = begin; slot < begin + count; ++slot) {
    if (batch.weights[slot] == 0) continue;
    const std::uint8_t* const values = batch.targets + slot * bytes;
    std::uint8_t largest = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      largest = std::max(largest, values[i] == batch.target.ignored ? std::uint8_t{0} : values[i]);
    if (largest < classes) continue;
    fail(ErrorKind::data,
         "sample {}: its label image has class {}, but the network's output has {} channels, for classes 0 to {}",
         place_of(batch, slot), largest, classes, classes - 1);
  }
}

void check_numbers(const Loss& loss, const Batch& batch, std::uint32_t begin, std::uint32_t count) {
  const std::optional<Range>& range = loss.info().numbers;
  if (!range || batch.numbers == nullptr || batch.row_offsets != nullptr) return;
  for (std::uint32_t slot = begin; slot < begin + count; ++slot) {
    if (batch.weights[slot] == 0) continue;
    const std::span numbers(batch.numbers + std::size_t{slot} * batch.numbers_per_sample, batch.numbers_per_sample);
    const auto fits = [&](float number) { return number >= range->low && number <= range->high; };
    const auto wrong = std::ranges::find_if_not(numbers, fits);
    if (wrong == numbers.end()) continue;
    fail(ErrorKind::data, "sample {}: number {} of {} is {}, but loss '{}' takes numbers from {} to {}", place_of(batch, slot),
         wrong - numbers.begin() + 1, numbers.size(), *wrong, loss.info().name, range->low, range->high);
  }
}

}  // namespace

double quotient(double above, double below) { return below > 0 ? above / below : 0; }

bool fits(const LossFigure& figure, const Shape& output) {
  const bool is_vector = output.elements() == output[0];
  return output[0] >= figure.least_outputs && !(figure.of_maps && is_vector);
}

void check_loss(const Loss& loss, const LossSetting& setting) {
  const std::string& name = loss.info().name;
  switch (loss.info().target) {
    case LossTarget::labels: check_labelled(name, setting); break;
    case LossTarget::classes: check_classes(name, setting); break;
    case LossTarget::values: check_values(name, setting); break;
  }
  try {
    loss.check(setting);
  } catch (Error& error) {
    throw error.in("loss '" + name + "'");
  }
}

// Checked here, where the sample's path is available; a kernel has only a row.
void check_labels(const Loss& loss, const Batch& batch, std::uint32_t begin, std::uint32_t count, const Shape& output) {
  if (loss.info().target == LossTarget::classes) return check_label_images(batch, begin, count, output[0]);
  if (loss.info().target == LossTarget::values) return check_numbers(loss, batch, begin, count);
  const std::int64_t classes = output.elements();
  const auto check = [&](std::uint32_t slot, std::int32_t label) {
    if (label >= 0 && label < classes) return;
    const std::string what = label < 0 ? "has no label" : fmt::format("has label {}", label);
    fail(ErrorKind::data, "sample {} {}: the loss takes labels of the network's {} classes, 0 to {}", place_of(batch, slot), what,
         classes, classes - 1);
  };
  for (std::uint32_t slot = begin; slot < begin + count; ++slot) {
    if (batch.weights[slot] == 0) continue;
    check(slot, batch.labels[slot]);
    if (batch.shares != nullptr && batch.shares[slot] < 1) check(slot, batch.second_labels[slot]);
  }
}

double Loss::weight(const Batch& batch, Share slots, std::int64_t places) const {
  double sum = 0;
  for (std::uint32_t slot = slots.begin; slot < slots.begin + slots.count; ++slot)
    sum += static_cast<double>(batch.weights[slot]);
  return sum * static_cast<double>(places);
}

std::vector<double> count_target_classes(const Batch& batch, Share slots) {
  std::vector<double> counts(256, 0);
  ImageShape window = batch.target.shape(batch.window), stored = batch.target.shape(batch.image);
  window.channels = stored.channels = 1;
  std::vector<std::uint8_t> seen(window.bytes());
  for (std::uint32_t slot = slots.begin; slot < slots.begin + slots.count; ++slot) {
    if (batch.weights[slot] == 0) continue;
    std::array<std::uint32_t, 256> found{};
    apply_record(target_record(batch.records[slot], batch.target), {batch.targets + slot * stored.bytes(), stored}, window,
                 seen.data());
    for (const std::uint8_t value : seen) ++found[value];
    for (std::size_t value = 0; value < 256; ++value) counts[value] += found[value] * static_cast<double>(batch.weights[slot]);
  }
  counts[batch.target.ignored] = 0;
  return counts;
}

}  // namespace millrace
