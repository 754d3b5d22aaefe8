#include "batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <vector>

#include "millrace/plugin.h"
#include "millrace/stage.h"

namespace millrace {

namespace {

constexpr std::size_t kEpochsCounted = 2;  // at their boundary, samples of both arrive

// `budget` below 1 is a fraction of the epoch's samples.
std::uint64_t allowed(double budget, std::uint64_t samples, std::uint64_t least) {
  if (budget >= 1) return static_cast<std::uint64_t>(budget);
  if (budget == 0) return 0;
  if (samples == 0) return std::numeric_limits<std::uint64_t>::max();  // number of samples unknown
  return std::max(least, static_cast<std::uint64_t>(std::ceil(budget * static_cast<double>(samples))));
}

// Checks that the network can see the image through a window in its middle.
void check_window(const ImageShape& image, const ImageShape& window) {
  if (image.channels != window.channels) {
    fail(ErrorKind::usage,
         "images of {} channel{} arrive, and the input of the network (network.use) takes {}: set `channels` in decode_image, or "
         "name another network",
         image.channels, image.channels == 1 ? "" : "s", window.channels);
  }
  if (image.height < window.height || image.width < window.width) {
    fail(ErrorKind::usage, "images of {} x {} arrive, smaller than the network's input of {} x {}: add a resize stage before",
         image.height, image.width, window.height, window.width);
  }
}

// Checks the limit of augmentation records: 16-bit coordinates.
void check_target_size(const ImageShape& image, const TargetSpec& target) {
  constexpr std::int64_t kLargest = 32'767;
  const std::int64_t height = std::int64_t{image.height} * target.scale, width = std::int64_t{image.width} * target.scale;
  if (target.scale == 1 || std::max(height, width) <= kLargest) return;
  fail(ErrorKind::usage,
       "images of {} x {} have targets of {} x {} (target_scale = {}): at most {} x {}, so make the images smaller", image.height,
       image.width, height, width, target.scale, kLargest, kLargest);
}

// Example lines that resize images of varying size: to the network's input if there is a network.
std::string ways_to_one_size(const std::string& graph, const ImageShape& window) {
  const int height = window.is_static() ? window.height : 224, width = window.is_static() ? window.width : 224;
  const int short_side = (std::max(height, width) * 8 + 6) / 7;  // usually 224 of 256 are cropped
  return fmt::format(R"(write into the file

    [{0}.decode_image]
    size = [{1}, {2}]
    fit  = "exact"                                   # the whole image, resized; proportions change

or, instead of `fit`,

    short_side = {3:<36}# resized with its proportions,
    crop       = "centre"                            # and the size cut out of the middle

or, for training,

    random_resized_crop = {{ area = [0.5, 1.0] }}      # a part of random size and place, resized

If all files have one size, `size` alone suffices. A resize or crop stage before the batch does as well.)",
                     graph, height, width, short_side);
}

// Unlike Batch::change_pixels(): a batch being filled has not been read by a device.
std::uint8_t* pixels_of(Batch& batch, std::uint32_t slot) {
  return const_cast<std::uint8_t*>(batch.pixels) + slot * batch.image.bytes();
}

}  // namespace

void BatchSamples::describe(StageDescription<Params>& d) {
  d.name("batch").text("Collects samples into batches.");
  d.input(payload::kImageChunk).output(payload::kBatch).output(payload::kSampleChunk, "retry");
  d.params.add("size", &Params::size)
      .required()
      .range(1, 1 << 24)
      .choices({"auto"})
      .unit("samples")
      .text("global batch over all replicas; auto: largest that fits in memory, see run.memory")
      .alternative("batch's size");
  d.params.add("per_device", &Params::per_device)
      .range(1, 1 << 24)
      .unit("samples")
      .text("samples per replica, instead of `size`; the mean if `load` divides the batch unequally")
      .alternative("batch's size");
  d.params.add("buffers", &Params::buffers).range(1, 64).text("batches in circulation: sets prefetching and memory").may_change();
  d.params.add("last", &Params::last)
      .choices({"auto", "drop", "keep", "wrap"})
      .text(
          "an epoch's last, incomplete batch: dropped (other samples each time if every epoch is shuffled), smaller, or filled "
          "with the epoch's first samples; auto: drop, or keep in other graphs than the main one and for metrics or predictions "
          "without training");
  d.params.add("bad_samples", &Params::bad_samples)
      .choices({"auto", "replace", "skip", "fail"})
      .text(
          "unreadable samples: replace, skip, or end the run; auto: replace, or skip in other graphs than the main one and for "
          "metrics or predictions without training");
  d.params.add("bad_sample_budget", &Params::bad_sample_budget)
      .range(0)
      .text("bad samples allowed per epoch: from 1 on a number; below 1 a fraction of the samples, but at least 10; 0: none")
      .may_change();
}

BatchSpec::Last BatchSamples::last_of(const Params& params, const DataContext& context) {
  if (context.predicts && (params.last == "drop" || params.last == "wrap")) {
    fail(ErrorKind::usage, "last = \"{}\": each image is predicted once; set last = \"keep\"", params.last);
  }
  if (params.last == "keep" || (params.last == "auto" && context.predicts)) return BatchSpec::Last::keep;
  return params.last == "wrap" ? BatchSpec::Last::wrap : BatchSpec::Last::drop;
}

BatchSamples::Policy BatchSamples::policy_of(const Params& params, const DataContext& context) {
  if (context.predicts && params.bad_samples == "replace") {
    fail(ErrorKind::usage, "bad_samples = \"replace\": each image is predicted once; set \"skip\" or \"fail\"");
  }
  if (params.bad_samples == "fail") return Policy::fail;
  return params.bad_samples == "skip" || context.predicts ? Policy::skip : Policy::replace;
}

BatchSamples::BatchSamples(const Params& params, const DataContext& context)
    : spec_{static_cast<std::uint32_t>(params.size), static_cast<std::uint32_t>(params.buffers), last_of(params, context)},
      policy_(policy_of(params, context)),
      graph_(context.graph),
      name_(context.name),
      image_(context.image),
      run_(context.run),
      budget_(allowed(params.bad_sample_budget, context.samples_per_epoch, kLeastBudget)) {
  if (!image_.is_static()) {
    fail(ErrorKind::usage, "images of varying size ({}) cannot share a batch: {}", to_string(image_),
         ways_to_one_size(graph_, context.window));
  }
  if (context.window.is_static()) check_window(image_, context.window);
  check_target_size(image_, context.target);
}

void BatchSamples::process(int, Packet packet, Output& output) {
  Batch& batch = static_cast<Batch&>(*packet.payload);
  std::uint32_t done = 0;
  for (std::uint32_t slot = packet.begin; slot < packet.begin + packet.count; ++slot) {
    Sample& sample = batch.samples[slot];
    if (!sample.fault) check_pixels(batch, slot);
    if (!sample.fault) {
      if (batch.resident_set >= 0 && !sample.resident()) refuse_change();
      take(batch, slot);
    } else if (!refuse(batch, slot)) {
      Packet again = packet;
      again.begin = slot;
      again.count = 1;
      output.emit(1, std::move(again));
      continue;
    }
    ++done;
  }
  const bool is_last = done > 0 && batch.missing.fetch_sub(done, std::memory_order_acq_rel) == done;
  if (!is_last && batch.count > 0) return;  // without samples here, the single packet is the last
  complete(batch);
  packet.begin = 0;
  packet.count = batch.count;
  packet.sequence = batch.step;
  output.emit(0, std::move(packet));
}

void BatchSamples::check_pixels(Batch& batch, std::uint32_t slot) const {
  Sample& sample = batch.samples[slot];
  const ImageView image = sample.image();
  std::uint8_t* place = pixels_of(batch, slot);
  if (image.shape != batch.image) {
    sample.fault =
        SampleFault{name_, fmt::format("the image is {}, the batch holds {}", to_string(image.shape), to_string(batch.image))};
  } else if (image.data != place) {
    std::memcpy(place, image.data, batch.image.bytes());
  }
  if (batch.targets && !sample.fault) check_target(batch, slot);
  if (!sample.fault) check_numbers(batch, sample);
}

void BatchSamples::check_numbers(const Batch& batch, Sample& sample) const {
  const std::size_t each = batch.numbers_per_sample, have = sample.numbers.size();
  if (each == 0 || (batch.row_offsets ? have % each == 0 : have == each)) return;
  sample.fault = SampleFault{name_, fmt::format("the sample has {} number{}, and its source announces {}{}", have,
                                                have == 1 ? "" : "s", batch.row_offsets ? "rows of " : "", each)};
}

void BatchSamples::check_target(Batch& batch, std::uint32_t slot) const {
  Sample& sample = batch.samples[slot];
  const Image& target = sample.target();
  const ImageShape expected = batch.target.shape(batch.image);
  std::uint8_t* place = batch.targets + slot * expected.bytes();
  if (target.shape != expected) {
    sample.fault = SampleFault{name_, fmt::format("the target is {}, expected {}", to_string(target.shape), to_string(expected))};
  } else if (target.data != place) {
    std::memcpy(place, target.data, expected.bytes());
  }
}

void BatchSamples::take(Batch& batch, std::uint32_t slot) const {
  Sample& sample = batch.samples[slot];
  if (batch.window.is_static()) place_window(sample, batch.window);
  batch.labels[slot] = sample.label;
  batch.records[slot] = sample.record;
  batch.records[slot].noise = sample.noise;
  batch.records[slot].noise_seed = sample.noise_seed;
  if (batch.source_maps) batch.source_maps[slot] = sample.source_map();
  batch.weights[slot] = 1;
  if (batch.row_offsets) return;  // complete() gathers them
  std::copy_n(sample.numbers.begin(), batch.numbers_per_sample, batch.numbers + slot * batch.numbers_per_sample);
}

void BatchSamples::refuse_change() const {
  fail(ErrorKind::usage,
       "a stage between the cache and [{}.{}] changes pixels, but the cache has `device = true`, so devices keep each image as "
       "cached (and execute only flips and shifts by whole pixels): move that stage before the cache if it is not random, else "
       "set `device = false`",
       graph_, name_);
}

bool BatchSamples::refuse(Batch& batch, std::uint32_t slot) {
  const Sample& sample = batch.samples[slot];
  if (run_)
    run_->bad_sample(graph_, sample, policy_ == Policy::replace ? "replaced" : policy_ == Policy::skip ? "skipped" : "fatal");
  if (policy_ == Policy::fail) {
    throw Error(ErrorKind::content, sample.fault->cause)
        .in("stage '" + sample.fault->stage + "'")
        .in("sample '" + sample.place() + "'");
  }
  count_bad(batch, sample);
  if (policy_ == Policy::skip) {
    blank(batch, slot);
    return true;
  }
  if (sample.key.attempt + 1 >= kMaxAttempts) {
    fail(ErrorKind::data, "{} samples in a row could not be used for position {} of epoch {}; the last is '{}': {}",
         kMaxAttempts, sample.key.position, sample.key.epoch + 1, sample.place(), sample.fault->cause);
  }
  return false;
}

// Counts by epoch and by pass; all validations are epoch 0. Samples of two epochs may arrive mixed at their boundary. Samples
// read ahead of a checkpoint come again in the resumed run and are already counted. Samples of a rehearsal all come again, so
// they are counted apart and discarded.
void BatchSamples::count_bad(const Batch& batch, const Sample& sample) {
  const bool is_dry_run = run_ && run_->is_dry_run();
  std::uint64_t bad = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!is_dry_run) bad_in_rehearsal_.clear();
    Epochs& epochs = is_dry_run ? bad_in_rehearsal_ : bad_;
    const std::uint64_t epoch = sample.key.epoch + batch.pass;
    Places& places = epochs[epoch];
    const bool is_new = places.emplace(sample.key.position, sample.key.attempt).second;
    if (is_new && !is_dry_run) found_[epoch].emplace(sample.key.position, sample.key.attempt);
    bad = places.size();
    forget_old(epochs);
    forget_old(found_);
  }
  if (bad <= budget_) return;
  fail(ErrorKind::data, "{} bad sample{} in epoch {} {} more than `bad_sample_budget` allows ({}); the last is '{}': {}{}", bad,
       bad == 1 ? "" : "s", sample.key.epoch + 1, bad == 1 ? "is" : "are", budget_, sample.place(), sample.fault->cause,
       is_dry_run ? "" : place_of_all());
}

void BatchSamples::forget_old(Epochs& epochs) {
  while (epochs.size() > kEpochsCounted) epochs.erase(epochs.begin());
}

// For each epoch: its number, the number of places, and the places: "3 2 17 0 17 1".
std::string BatchSamples::text_of(const Epochs& epochs) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [epoch, places] : epochs) {
    numbers.insert(numbers.end(), {epoch, places.size()});
    for (const auto& [position, attempt] : places) numbers.insert(numbers.end(), {position, attempt});
  }
  return fmt::format("{}", fmt::join(numbers, " "));
}

BatchSamples::Epochs BatchSamples::epochs_in(std::string_view text) {
  std::istringstream words{std::string(text)};
  Epochs epochs;
  bool whole = true;
  std::uint64_t epoch = 0, count = 0, position = 0;
  std::uint32_t attempt = 0;
  while (whole && words >> epoch) {
    whole = static_cast<bool>(words >> count);
    for (; whole && count > 0; --count) {
      whole = static_cast<bool>(words >> position >> attempt);
      if (whole) epochs[epoch].emplace(position, attempt);
    }
  }
  if (!whole || !words.eof()) fail(ErrorKind::data, "bad samples of epochs cannot be '{}'", text);
  return epochs;
}

std::string BatchSamples::save() const {
  const std::lock_guard lock(mutex_);
  return text_of(bad_);
}

void BatchSamples::restore(std::string_view saved) {
  Epochs bad = epochs_in(saved);
  const std::lock_guard lock(mutex_);
  bad_ = std::move(bad);
}

std::string BatchSamples::take_found() {
  const std::lock_guard lock(mutex_);
  return text_of(std::exchange(found_, {}));
}

void BatchSamples::count_found(std::string_view found) {
  std::size_t most = 0;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [epoch, places] : epochs_in(found)) {
      bad_[epoch].merge(places);
      most = std::max(most, bad_[epoch].size());
    }
    forget_old(bad_);
  }
  if (most <= budget_) return;
  fail(ErrorKind::data, "{} bad samples of all ranks in an epoch are more than `bad_sample_budget` allows ({}){}", most, budget_,
       place_of_all());
}

std::string BatchSamples::place_of_all() const {
  return run_ && !run_->output_folder().empty() ? ". quarantine.jsonl names them all" : "";
}

void BatchSamples::blank(Batch& batch, std::uint32_t slot) {
  std::memset(pixels_of(batch, slot), 0, batch.image.bytes());
  if (batch.targets) std::memset(batch.targets + slot * batch.target_bytes(), batch.target.ignored, batch.target_bytes());
  if (!batch.row_offsets) {
    std::fill_n(batch.numbers + slot * batch.numbers_per_sample, batch.numbers_per_sample, 0.0F);
  }
  batch.labels[slot] = 0;
  batch.records[slot] = {};
  if (batch.source_maps) batch.source_maps[slot] = {};
  batch.weights[slot] = 0;
}

// All used slots have arrived. Sums follow slot order, so that timing cannot change them.
void BatchSamples::complete(Batch& batch) {
  for (std::uint32_t slot = batch.count; slot < batch.capacity(); ++slot) blank(batch, slot);
  if (batch.row_offsets) gather_rows(batch);
  batch.weight = 0;
  batch.stream_hash = 0;
  for (std::uint32_t slot = 0; slot < batch.count; ++slot) {
    const Sample& sample = batch.samples[slot];
    batch.weight += batch.weights[slot];
    batch.stream_hash += combine(sample.hash, sample.key.position);
  }
}

}  // namespace millrace

MILLRACE_PLUGIN("batch", "1.0", "Batches of samples.") { registry.add_stage<millrace::BatchSamples>(); }
