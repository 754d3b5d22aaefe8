#include "millrace/loss.h"

#include <algorithm>

#include "millrace/error.h"

namespace millrace {
namespace {

std::string text_of(const Shape& shape) {
  std::string text;
  for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i == 0 ? "" : " x ", shape[i]);
  return text;
}

Shape shape_of(const ImageShape& image, int channels) { return {channels, image.height, image.width}; }

void check_labelled(const std::string& name, const LossSetting& s) {
  if (s.output.elements() != s.output[0]) {
    fail(ErrorKind::usage, "loss '{}' takes one output a class, and the network's output is {}", name, text_of(s.output));
  }
  if (s.classes <= s.output[0]) return;
  fail(ErrorKind::usage, "{} classes are read, and the network's output is {}: its last layer must have as many", s.classes,
       s.output[0]);
}

void check_classes(const std::string& name, const LossSetting& s) {
  if (s.target.kind != TargetSpec::Kind::classes) {
    fail(ErrorKind::usage, "loss '{}' needs images of class indices beside the images, and the source has none", name);
  }
  if (s.output.rank() != 3 || s.output[1] != s.window.height || s.output[2] != s.window.width) {
    fail(ErrorKind::usage, "loss '{}': the network's output is {}, and the label images are {} x {}: they must match", name,
         text_of(s.output), s.window.height, s.window.width);
  }
  std::int64_t classes = 0;
  bool listed = false;  // otherwise values are classes as they are, and check_labels() looks at them
  for (std::size_t value = 0; value < 256; ++value) {
    const std::uint8_t as = s.target.classes[value];
    listed = listed || (as != value && value != s.target.ignored);
    if (as != s.target.ignored) classes = std::max<std::int64_t>(classes, as + 1);
  }
  if (!listed || classes <= s.output[0]) return;
  fail(ErrorKind::usage, "label images name {} classes, and the network's output has {} channels: it must have as many", classes,
       s.output[0]);
}

void check_values(const std::string& name, const LossSetting& s) {
  if (s.target.kind == TargetSpec::Kind::image) {
    const Shape wanted = shape_of(s.window, s.target.channels(s.window.channels));
    if (s.output == wanted) return;
    fail(ErrorKind::usage, "loss '{}': the network's output is {}, and the target images are {}: they must match", name,
         text_of(s.output), text_of(wanted));
  }
  if (s.numbers == 0) {
    fail(ErrorKind::usage, "loss '{}' needs numbers or target images beside the images, and the source has neither", name);
  }
  if (s.output.elements() == s.numbers && s.output[0] == s.numbers) return;
  fail(ErrorKind::usage, "loss '{}': the network's output is {}, and each image has {} numbers: they must match", name,
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
    fail(ErrorKind::data, "sample {}: its label image has class {}, and the network's output {} channels, for classes 0 to {}",
         place_of(batch, slot), largest, classes, classes - 1);
  }
}

}  // namespace

double quotient(double above, double below) { return below > 0 ? above / below : 0; }

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

// Checked here, where the sample's path is known; a kernel knows only a row.
void check_labels(const Loss& loss, const Batch& batch, std::uint32_t begin, std::uint32_t count, const Shape& output) {
  if (loss.info().target == LossTarget::classes) return check_label_images(batch, begin, count, output[0]);
  if (loss.info().target != LossTarget::labels) return;
  const std::int64_t classes = output.elements();
  const auto check = [&](std::uint32_t slot, std::int32_t label) {
    if (label >= 0 && label < classes) return;
    const std::string what = label < 0 ? "has no label" : fmt::format("has label {}", label);
    fail(ErrorKind::data, "sample {} {}: the loss takes those of the network's {} classes, 0 to {}", place_of(batch, slot), what,
         classes, classes - 1);
  };
  for (std::uint32_t slot = begin; slot < begin + count; ++slot) {
    if (batch.weights[slot] == 0) continue;
    check(slot, batch.labels[slot]);
    if (batch.shares != nullptr && batch.shares[slot] < 1) check(slot, batch.second_labels[slot]);
  }
}

std::vector<double> count_target_classes(const Batch& batch) {
  std::vector<double> counts(256, 0);
  ImageShape window = batch.window;
  window.channels = 1;
  const ImageShape stored{batch.image.height, batch.image.width, 1};
  std::vector<std::uint8_t> seen(window.bytes());
  for (std::uint32_t slot = 0; slot < batch.count; ++slot) {
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
