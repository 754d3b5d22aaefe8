#include "write_regression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/output_file.h"

namespace millrace {
namespace {

constexpr std::size_t kMostCaptions = 3;  // numbers below an image

}  // namespace

void WriteRegression::describe(StageDescription<Params>& d) {
  d.name("write_regression")
      .text(
          "Compares predicted numbers with those of the samples: errors of each, a scatter of predictions over targets, sheets.");
  d.input(payload::kPredictions).serial();
  d.params.add("folder", &Params::folder)
      .text("a folder in the run's folder, or an absolute path; CSV files and pictures are written into it");
  d.params.add("columns", &Params::columns).text("names of the numbers; without them they are numbered");
  d.params.add("mistakes", &Params::mistakes)
      .range(0, 100)
      .unit("images")
      .text("how many images of the largest errors are drawn on a sheet; 0: no sheet");
  d.params.add("predictions", &Params::predictions)
      .range(0, 100)
      .unit("images")
      .text("how many images, evenly spaced over the pass, are drawn with their predictions; 0: no sheet");
}

// For the targets, which lie in the batch.
void WriteRegression::request(const Params&, const StageSite&, CompileRequest& request) { request.needs_image = true; }

WriteRegression::WriteRegression(const Params& params, const DataContext& context)
    : JointSink(context),
      params_(params),
      context_(context),
      names_(params.columns),
      spaced_(static_cast<std::size_t>(params.predictions), context.samples_per_epoch),
      shown_(static_cast<std::size_t>(params.predictions)),
      worst_(static_cast<std::size_t>(params.mistakes)) {
  if (context.network == nullptr) fail(ErrorKind::usage, "there is no [network] whose numbers could be compared");
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

void WriteRegression::open() {
  folder_ = folder_of_first(context_, "folder", params_.folder, "figures.csv");
  if (!folder_.empty()) drawing::load_fonts();
}

std::size_t WriteRegression::memory_bound() const {
  constexpr std::size_t kRow = 150, kNumber = 16;
  return drawing::sheet_memory_bound(static_cast<std::size_t>(params_.mistakes + params_.predictions), 1, context_.window) +
         static_cast<std::size_t>(context_.samples_per_epoch) * (kRow + names_.size() * kNumber);
}

void WriteRegression::write(const Predictions& share) {
  for (std::uint32_t i = 0; i < share.count; ++i) {
    if (share.samples[i].counts) add_row(share, i);
  }
  if (!share.last) return;
  join();
  if (!folder_.empty()) write_files();
  rows_.clear();
  shown_.clear();
  worst_.clear();
}

void WriteRegression::add_row(const Predictions& share, std::size_t sample) {
  const Batch& batch = *share.batch;
  if (batch.numbers_per_sample != names_.size() || batch.row_offsets != nullptr) {
    fail(ErrorKind::usage, "the network predicts {} numbers, and a sample has {}: they must match", names_.size(),
         batch.row_offsets != nullptr ? "rows of them" : fmt::format("{}", batch.numbers_per_sample));
  }
  Row row{share.samples[sample].key.position, {}, {}, {}};
  share.samples[sample].append_place(row.place);
  const float* const targets = batch.numbers + (share.first_slot + sample) * names_.size();
  row.targets.assign(targets, targets + names_.size());
  const std::span<const float> predicted = share.result().row(sample);
  row.predicted.assign(predicted.begin(), predicted.end());
  keep_if_shown(row, share, sample);
  rows_.push_back(std::move(row));
}

// The root mean square over the numbers; of a prediction that is no number infinite.
double WriteRegression::error_of(const Row& row) const {
  double squares = 0;
  for (std::size_t k = 0; k < names_.size(); ++k) {
    const double far = double{row.predicted[k]} - double{row.targets[k]};
    squares += far * far;
  }
  const double error = std::sqrt(squares / static_cast<double>(names_.size()));
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

void WriteRegression::keep_if_shown(const Row& row, const Predictions& share, std::size_t sample) {
  const double error = error_of(row);
  const bool is_shown = spaced_.takes(row.position) && shown_.takes(0, row.position);
  if (!is_shown && !worst_.takes(error, row.position)) return;
  drawing::KeptSample kept{.loss = error, .position = row.position, .cell = {}};
  std::vector<std::uint8_t> seen(share.batch->window.bytes());
  share.copy_image(sample, seen.data());
  kept.cell.images.push_back(drawing::kept({seen.data(), share.batch->window}));
  for (std::size_t k = 0; k < std::min(names_.size(), kMostCaptions); ++k) {
    if (names_.size() > 1) kept.cell.captions.push_back({names_[k], drawing::kFaint});
    kept.cell.captions.push_back({fmt::format("{:.4g}, is {:.4g}", row.predicted[k], row.targets[k])});
  }
  kept.cell.captions.push_back({row.place.substr(row.place.rfind('/') + 1), drawing::kFaint});  // none: rfind() + 1 is 0
  worst_.add(kept);
  kept.loss = 0;
  if (is_shown) shown_.add(std::move(kept));
}

// The rows of all processes, in order of the source, on the first one.
void WriteRegression::join() {
  gather_rows(
      rows_, [](WireWriter& to, const Row& row) { to.put(row.place).put(row.targets).put(row.predicted); },
      [](WireReader& from, Row& row) {
        row.place = from.get<std::string>();
        row.targets = from.list<float>();
        row.predicted = from.list<float>();
      });
  shown_.join(*this);
  worst_.join(*this);
}

std::vector<std::vector<drawing::Point>> WriteRegression::pairs() const {
  std::vector<std::vector<drawing::Point>> pairs(names_.size());
  for (const Row& row : rows_) {
    for (std::size_t k = 0; k < names_.size(); ++k) pairs[k].push_back({row.targets[k], row.predicted[k]});
  }
  return pairs;
}

std::string WriteRegression::numbers_csv() const {
  std::string text = "path";
  for (const std::string& name : names_) {
    for (const std::string& column : {name, name + "_predicted"}) {
      text += ',';
      append_csv(text, column);
    }
  }
  text += "\r\n";
  for (const Row& row : rows_) {
    append_csv(text, row.place);
    for (std::size_t k = 0; k < names_.size(); ++k) {
      fmt::format_to(std::back_inserter(text), ",{},{}", row.targets[k], row.predicted[k]);
    }
    text += "\r\n";
  }
  return text;
}

std::string WriteRegression::figures_csv(const std::vector<ColumnErrors>& errors) const {
  const bool all_finite = std::ranges::all_of(errors, [](const ColumnErrors& each) { return each.not_finite == 0; });
  std::string text = fmt::format("number,count,rmse,mae,r2{}\r\n", all_finite ? "" : ",not_finite");
  for (std::size_t k = 0; k < names_.size(); ++k) {
    append_csv(text, names_[k]);
    fmt::format_to(std::back_inserter(text), ",{},{},{},{}", errors[k].count, errors[k].rmse, errors[k].mae, errors[k].explained);
    if (!all_finite) fmt::format_to(std::back_inserter(text), ",{}", errors[k].not_finite);
    text += "\r\n";
  }
  return text;
}

void WriteRegression::write_files() const {
  const std::vector<std::vector<drawing::Point>> pairs = this->pairs();
  std::vector<ColumnErrors> errors;
  for (const auto& of_number : pairs) errors.push_back(ColumnErrors::of(of_number));
  OutputFiles files;
  files.add(folder_ + "/figures.csv", figures_csv(errors));
  files.add(folder_ + "/numbers.csv", numbers_csv());
  if (drawing::can_draw()) {
    const std::string heading = fmt::format("{} images of {}", rows_.size(), context_.graph);
    const drawing::Picture picture = scatter(names_, pairs, heading);
    files.add(folder_ + "/scatter.png", picture.png());
    files.add(folder_ + "/scatter.svg", picture.svg());
    const auto add_sheet = [&](const char* file, const drawing::KeptSamples& samples, const std::string& subtitle) {
      drawing::Sheet sheet = samples.sheet();
      sheet.title = fmt::format("{} of {}", sheet.cells.size(), heading);
      sheet.subtitle = subtitle;
      files.add(fmt::format("{}/{}", folder_, file), drawing::draw(sheet).png());
    };
    if (params_.predictions > 0) add_sheet("predictions.png", shown_, "what was predicted, and what it is");
    if (params_.mistakes > 0) add_sheet("mistakes.png", worst_, "largest errors first");
  }
  files.commit();
}

}  // namespace millrace

MILLRACE_PLUGIN("write_regression", "1.0", "Predicted numbers compared with those of the samples, as CSV and pictures.") {
  registry.add_stage<millrace::WriteRegression>();
}
