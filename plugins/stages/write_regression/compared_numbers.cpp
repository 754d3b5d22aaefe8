#include "compared_numbers.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/util/csv_head.h"

namespace millrace {

ComparedNumbers::ComparedNumbers(const ComparisonParams& params, const DataContext& context, Judge judge)
    : params_(params),
      context_(context),
      judge_(std::move(judge)),
      names_(params.columns),
      spaced_(static_cast<std::size_t>(params.predictions), context.samples_per_epoch),
      shown_(static_cast<std::size_t>(params.predictions)),
      worst_(static_cast<std::size_t>(params.mistakes)) {
  if (context.network == nullptr) fail(ErrorKind::usage, "[network] is missing: this stage compares its numbers");
  const Shape& output = context.network->output();
  if (output.elements() != output[0]) {
    fail(ErrorKind::usage, "the network's output is {}, and numbers of samples are compared with a vector", to_string(output));
  }
  const auto numbers = static_cast<std::size_t>(output[0]);
  if (!names_.empty() && names_.size() != numbers) {
    fail(ErrorKind::usage, "columns: there are {} names, and the network predicts {} numbers", names_.size(), numbers);
  }
  for (std::size_t k = names_.size(); k < numbers; ++k) names_.push_back(fmt::format("{}", k));
}

void ComparedNumbers::add(const Predictions& share) {
  for (std::uint32_t i = 0; i < share.count; ++i) {
    if (share.samples[i].counts) add_row(share, i);
  }
}

void ComparedNumbers::add_row(const Predictions& share, std::size_t sample) {
  const Batch& batch = *share.batch;
  if (batch.numbers_per_sample != names_.size() || batch.row_offsets != nullptr) {
    fail(ErrorKind::data, "the network predicts {} numbers, and a sample has {}: they must match", names_.size(),
         batch.row_offsets != nullptr ? "rows of them" : fmt::format("{}", batch.numbers_per_sample));
  }
  NumberRow row{share.samples[sample].key.position, {}, {}, {}};
  share.samples[sample].append_place(row.place);
  const float* const targets = batch.numbers + (share.first_slot + sample) * names_.size();
  row.targets.assign(targets, targets + names_.size());
  const std::span<const float> predicted = share.result().row(sample);
  row.predicted.assign(predicted.begin(), predicted.end());
  keep_if_shown(row, share, sample);
  rows_.push_back(std::move(row));
}

void ComparedNumbers::keep_if_shown(const NumberRow& row, const Predictions& share, std::size_t sample) {
  const double error = judge_.error(row);
  const bool is_shown = spaced_.takes(row.position) && shown_.takes(0, row.position);
  if (!is_shown && !worst_.takes(error, row.position)) return;
  drawing::KeptSample kept{.loss = error, .position = row.position, .cell = {}};
  std::vector<std::uint8_t> seen(share.batch->window.bytes());
  share.copy_image(sample, seen.data());
  kept.cell.images.push_back(drawing::kept({seen.data(), share.batch->window}));
  kept.cell.captions = judge_.captions(row);
  kept.cell.captions.push_back({row.place.substr(row.place.rfind('/') + 1), drawing::kFaint});  // none: rfind() + 1 is 0
  worst_.add(kept);
  kept.loss = 0;
  if (is_shown) shown_.add(std::move(kept));
}

void ComparedNumbers::join(JointSink& processes) {
  processes.gather_rows(
      rows_, [](WireWriter& to, const NumberRow& row) { to.put(row.place).put(row.targets).put(row.predicted); },
      [](WireReader& from, NumberRow& row) {
        row.place = from.get<std::string>();
        row.targets = from.list<float>();
        row.predicted = from.list<float>();
      });
  shown_.join(processes);
  worst_.join(processes);
}

void ComparedNumbers::clear() {
  rows_.clear();
  shown_.clear();
  worst_.clear();
}

std::string ComparedNumbers::heading() const { return fmt::format("{} images of {}", rows_.size(), context_.graph); }

void ComparedNumbers::add_sheets(OutputFiles& files, const std::string& folder, const char* of_shown,
                                 const char* of_worst) const {
  const auto add = [&](const char* file, const drawing::KeptSamples& samples, const char* subtitle) {
    drawing::Sheet sheet = samples.sheet();
    sheet.title = fmt::format("{} of {}", sheet.cells.size(), heading());
    sheet.subtitle = subtitle;
    files.add(fmt::format("{}/{}", folder, file), drawing::draw(sheet).png());
  };
  if (params_.predictions > 0) add("predictions.png", shown_, of_shown);
  if (params_.mistakes > 0) add("mistakes.png", worst_, of_worst);
}

std::string ComparedNumbers::csv(const char* ending, const std::function<std::string(float)>& shown) const {
  std::vector<std::string> columns = {"path"};
  for (const std::string& name : names_) columns.insert(columns.end(), {name, name + ending});
  std::string text = csv_head(columns);
  for (const NumberRow& row : rows_) {
    append_csv(text, row.place);
    for (std::size_t k = 0; k < row.targets.size(); ++k) text += fmt::format(",{},{}", row.targets[k], shown(row.predicted[k]));
    text += "\r\n";
  }
  return text;
}

std::size_t ComparedNumbers::memory_bound() const {
  constexpr std::size_t kRow = 150, kNumber = 16;
  return drawing::sheet_memory_bound(static_cast<std::size_t>(params_.mistakes + params_.predictions), 1, context_.window) +
         static_cast<std::size_t>(context_.samples_per_epoch) * (kRow + names_.size() * kNumber);
}

}  // namespace millrace
