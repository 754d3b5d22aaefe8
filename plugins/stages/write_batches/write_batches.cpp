#include "write_batches.h"

#include <bars.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <system_error>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/output_file.h"
#include "millrace/util/record_noise.h"

namespace millrace {
namespace {

ImageShape in_colours(ImageShape shape) {
  shape.channels = 3;
  return shape;
}

ClassColours colours_for(const DataContext& context) {
  if (context.target.kind != TargetSpec::Kind::classes) return {};
  return class_colours(context.colours, context.classes.size());
}

}  // namespace

void WriteBatches::describe(StageDescription<Params>& d) {
  d.name("write_batches")
      .text("Draws the first training batches as the network receives them, with labels and class counts.")
      .input(payload::kBatch)
      .serial();
  d.params.add("images", &Params::images).range(0, 400).text("images on the sheet first_batches.png; 0: no sheet");
}

WriteBatches::WriteBatches(const Params& params, const DataContext& context)
    : images_(static_cast<std::size_t>(params.images)), context_(context), colours_(colours_for(context)) {}

void WriteBatches::open() {
  if (context_.run == nullptr || !drawing::can_draw()) return;
  folder_ = context_.run->output_folder();
  if (!folder_.empty()) drawing::load_fonts();
}

// Batches arrive in any order, so the first images are known only once no earlier step is missing.
void WriteBatches::process(Batch& batch, Output&) {
  if (folder_.empty() || done_ || context_.run->is_dry_run()) return;
  ++batches_;
  last_step_ = std::max(last_step_, batch.step);
  has_first_step_ = has_first_step_ || batch.step == 0;
  is_behind_epoch_ = is_behind_epoch_ || batch.epoch > 0;
  if (batch.epoch == 0) {
    if (!sheet_begun_) add(batch);
    count(batch);
  }
  const bool none_is_missing = batches_ == last_step_ + 1;
  if (!none_is_missing) return;
  if (is_behind_epoch_) return begin_writing(true);
  if (!sheet_begun_ && cells_.size() == images_) begin_writing(false);
}

// Without step 0 the run has resumed, and keeps the pictures from its beginning.
void WriteBatches::stop() noexcept {
  try {
    if (has_first_step_ && !done_) begin_writing(true);
    if (writer_.joinable()) writer_.join();
  } catch (...) {  // the thread did not start: no pictures
  }
}

// Keeps the images of the earliest steps.
void WriteBatches::add(const Batch& batch) {
  for (std::uint32_t slot = 0; slot < batch.count; ++slot) {
    if (batch.weights[slot] == 0) continue;
    const Place place{batch.step, slot};
    if (cells_.size() == images_ && (images_ == 0 || std::prev(cells_.end())->first < place)) return;
    cells_.emplace(place, cell(batch, slot));
    if (cells_.size() > images_) cells_.erase(std::prev(cells_.end()));
  }
}

drawing::SheetCell WriteBatches::cell(const Batch& batch, std::uint32_t slot) const {
  drawing::SheetCell cell;
  cell.images.push_back(seen(batch, slot));
  if (batch.targets != nullptr) cell.images.push_back(target(batch, slot));
  cell.captions = captions(batch, slot);
  return cell;
}

void WriteBatches::count(const Batch& batch) {
  for (std::uint32_t slot = 0; slot < batch.count; ++slot) {
    if (batch.weights[slot] == 0 || batch.labels[slot] < 0) continue;
    const auto label = static_cast<std::size_t>(batch.labels[slot]);
    if (label >= counts_.size()) counts_.resize(std::max(label + 1, context_.classes.size()));
    counts_[label] += 1;
  }
}

// Includes the noise that the device adds.
drawing::KeptImage WriteBatches::seen(const Batch& batch, std::uint32_t slot) const {
  const AugmentationRecord& record = batch.records[slot];
  std::vector<std::uint8_t> pixels(batch.window.bytes());
  apply_record(record, {batch.pixels + slot * batch.image.bytes(), batch.image}, batch.window, pixels.data());
  add_noise(record, pixels);
  return drawing::kept({pixels.data(), batch.window});
}

drawing::KeptImage WriteBatches::target(const Batch& batch, std::uint32_t slot) const {
  const ImageShape stored = batch.target.shape(batch.image), shown = batch.target.shape(batch.window);
  std::vector<std::uint8_t> pixels(shown.bytes());
  apply_record(target_record(batch.records[slot], batch.target), {batch.targets + slot * stored.bytes(), stored}, shown,
               pixels.data());
  if (batch.target.kind != TargetSpec::Kind::classes) return drawing::kept({pixels.data(), shown});
  std::vector<std::uint8_t> coloured;
  coloured.reserve(3 * pixels.size());
  for (const std::size_t of : pixels) coloured.insert(coloured.end(), &colours_[3 * of], &colours_[3 * of] + 3);
  return drawing::kept({coloured.data(), in_colours(shown)});
}

std::string WriteBatches::name_of(std::int32_t label) const {
  const auto index = static_cast<std::size_t>(label);
  return label >= 0 && index < context_.classes.size() ? context_.classes[index] : fmt::format("{}", label);
}

std::vector<drawing::Caption> WriteBatches::captions(const Batch& batch, std::uint32_t slot) const {
  std::vector<drawing::Caption> lines;
  const std::int32_t label = batch.labels[slot];
  if (batch.second_labels != nullptr && batch.second_labels[slot] >= 0) {
    const float share = batch.shares[slot];
    lines.push_back({fmt::format("{:.2f} {}", share, name_of(label))});
    lines.push_back({fmt::format("{:.2f} {}", 1 - share, name_of(batch.second_labels[slot]))});
  } else if (label >= 0) {
    lines.push_back({name_of(label)});
  } else if (batch.numbers != nullptr && batch.row_offsets == nullptr && batch.numbers_per_sample > 0) {
    const float* const numbers = batch.numbers + slot * batch.numbers_per_sample;
    std::string text;
    for (std::uint32_t i = 0; i < std::min(batch.numbers_per_sample, 8U); ++i) text += fmt::format("{:.4g}  ", numbers[i]);
    lines.push_back({text});
  }
  return lines;
}

drawing::Picture WriteBatches::draw_sheet() {
  drawing::Sheet sheet;
  sheet.title = "First training batches, as the network sees them";
  sheet.subtitle = fmt::format("{} images of {}", cells_.size(), to_string(context_.window));
  for (auto& [place, cell] : cells_) sheet.cells.push_back(std::move(cell));
  for (std::size_t c = 0; context_.target.kind == TargetSpec::Kind::classes && c < context_.classes.size(); ++c) {
    sheet.legend.push_back({context_.classes[c], {colours_[3 * c], colours_[3 * c + 1], colours_[3 * c + 2]}});
  }
  return drawing::draw(sheet);
}

drawing::Picture WriteBatches::draw_labels() const {
  std::vector<std::string> names;
  for (std::size_t label = 0; label < counts_.size(); ++label) names.push_back(name_of(static_cast<std::int32_t>(label)));
  const char* const part = context_.group != nullptr ? ", the first process's part" : "";
  return drawing::label_histogram(counts_, names, fmt::format("Classes of the training samples, epoch 1{}", part));
}

// The writer's data do not change any more: the sheet is begun once, and counting ends with the first epoch.
void WriteBatches::begin_writing(bool epoch_is_over) {
  if (writer_.joinable()) writer_.join();
  const bool with_sheet = !std::exchange(sheet_begun_, true) && !cells_.empty(), with_labels = epoch_is_over && !counts_.empty();
  done_ = epoch_is_over;
  try {
    writer_ = std::thread([this, with_sheet, with_labels] {
      if (with_sheet) write("first_batches.png", [this] { return draw_sheet().png(); });
      if (with_labels) write("labels.png", [this] { return draw_labels().png(); });
    });
  } catch (const std::system_error& error) {  // no thread available; a missing picture must not end a run
    context_.run->warn(fmt::format("{} the first batches are not drawn: {}", context_.place(), error.what()));
  }
}

void WriteBatches::write(const char* name, const std::function<std::string()>& png) {
  try {
    OutputFile file(fmt::format("{}/{}", folder_, name), OutputFile::Sync::later);
    file.write(png());
    file.commit();
  } catch (const std::exception& error) {
    context_.run->warn(fmt::format("{} cannot write {}: {}", context_.place(), name, error.what()));
  }
}

}  // namespace millrace

MILLRACE_PLUGIN("write_batches", "1.0", "The first training batches as a picture.") {
  registry.add_stage<millrace::WriteBatches>();
}
