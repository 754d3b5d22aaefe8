#include "write_regression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "millrace/util/output_file.h"

namespace millrace {
namespace {

constexpr std::size_t kMostCaptions = 3;  // numbers below an image

// The root mean square over the numbers.
double error_of(const NumberRow& row) {
  double squares = 0;
  for (std::size_t k = 0; k < row.targets.size(); ++k) {
    const double far = double{row.predicted[k]} - double{row.targets[k]};
    squares += far * far;
  }
  const double error = std::sqrt(squares / static_cast<double>(row.targets.size()));
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

std::vector<drawing::Caption> captions_of(const NumberRow& row, const std::vector<std::string>& names) {
  std::vector<drawing::Caption> captions;
  for (std::size_t k = 0; k < std::min(row.targets.size(), kMostCaptions); ++k) {
    if (row.targets.size() > 1) captions.push_back({names[k], drawing::kFaint});
    captions.push_back({fmt::format("{:.4g}, is {:.4g}", row.predicted[k], row.targets[k])});
  }
  return captions;
}

}  // namespace

void WriteRegression::describe(StageDescription<Params>& d) {
  d.name("write_regression")
      .text("Compares predicted numbers with the samples': errors of each, a scatter of predictions over targets, sheets.");
  d.input(payload::kPredictions).serial().in_recipes(RecipeRole::sink).writes({"numbers"});
  Params::describe(d.params);
}

// Requests the batch, which holds the targets.
void WriteRegression::request(const Params&, const StageSite&, CompileRequest& request) { request.needs_image = true; }

WriteRegression::WriteRegression(const Params& params, const DataContext& context)
    : JointSink(context),
      params_(params),
      context_(context),
      numbers_(params, context,
               {.error = error_of, .captions = [this](const NumberRow& row) { return captions_of(row, numbers_.names()); }}) {}

void WriteRegression::open() {
  folder_ = folder_of_first(context_, "folder", params_.folder, "figures.csv");
  if (!folder_.empty()) drawing::load_fonts();
}

void WriteRegression::write(const Predictions& share) {
  numbers_.add(share);
  if (!share.last) return;
  numbers_.join(*this);
  const std::vector<std::vector<drawing::Point>> pairs = this->pairs();
  std::vector<ColumnErrors> errors;
  for (const auto& of_number : pairs) errors.push_back(ColumnErrors::of(of_number));
  if (!numbers_.rows().empty()) report_figures(context_, figures(errors));
  if (!folder_.empty()) write_files(pairs, errors);
  numbers_.clear();
}

std::vector<std::vector<drawing::Point>> WriteRegression::pairs() const {
  std::vector<std::vector<drawing::Point>> pairs(numbers_.names().size());
  for (const NumberRow& row : numbers_.rows()) {
    for (std::size_t k = 0; k < pairs.size(); ++k) pairs[k].push_back({row.targets[k], row.predicted[k]});
  }
  return pairs;
}

std::string WriteRegression::numbers_csv() const {
  return numbers_.csv("_predicted", [](float number) { return fmt::format("{}", number); });
}

std::string WriteRegression::figures_csv(const std::vector<ColumnErrors>& errors) const {
  const std::vector<std::string>& names = numbers_.names();
  const bool all_finite = std::ranges::all_of(errors, [](const ColumnErrors& each) { return each.not_finite == 0; });
  std::string text = fmt::format("number,count,rmse,mae,r2{}\r\n", all_finite ? "" : ",not_finite");
  for (std::size_t k = 0; k < names.size(); ++k) {
    append_csv(text, names[k]);
    fmt::format_to(std::back_inserter(text), ",{},{},{},{}", errors[k].count, errors[k].rmse, errors[k].mae,
                   errors[k].explained ? fmt::format("{}", *errors[k].explained) : "");
    if (!all_finite) fmt::format_to(std::back_inserter(text), ",{}", errors[k].not_finite);
    text += "\r\n";
  }
  return text;
}

std::vector<std::string> WriteRegression::reported_figures() const {
  ColumnErrors known;
  known.explained = 0;
  std::vector<std::string> names;
  for (const Figure& figure : figures(std::vector<ColumnErrors>(numbers_.names().size(), known))) names.push_back(figure.name);
  return names;
}

// Undefined values are left out, also from means.
std::vector<Figure> WriteRegression::figures(const std::vector<ColumnErrors>& errors) const {
  struct Kind {
    const char* name;
    std::optional<double> (*value)(const ColumnErrors&);
    bool higher_is_better;
  };
  const std::array<Kind, 3> kinds = {{{"rmse", [](const ColumnErrors& each) { return std::optional(each.rmse); }, false},
                                      {"mae", [](const ColumnErrors& each) { return std::optional(each.mae); }, false},
                                      {"r2", [](const ColumnErrors& each) { return each.explained; }, true}}};
  const bool is_alone = errors.size() == 1;
  std::vector<Figure> figures;
  for (const Kind& kind : kinds) {
    double sum = 0, count = 0;
    for (std::size_t k = 0; k < errors.size(); ++k) {
      const std::optional<double> value = kind.value(errors[k]);
      if (!value) continue;
      sum += *value, count += 1;
      figures.push_back({fmt::format("{}.{}", kind.name, numbers_.names()[k]), *value, false, kind.higher_is_better, true});
    }
    if (count == 0) continue;
    if (is_alone) figures.push_back({kind.name, sum, false, kind.higher_is_better});
    figures.push_back({fmt::format("mean_{}", kind.name), sum / count, false, kind.higher_is_better, is_alone});
  }
  return figures;
}

void WriteRegression::write_files(const std::vector<std::vector<drawing::Point>>& pairs,
                                  const std::vector<ColumnErrors>& errors) const {
  const std::vector<std::string>& names = numbers_.names();
  OutputFiles files(context_);
  files.add(folder_ + "/figures.csv", figures_csv(errors));
  files.add(folder_ + "/numbers.csv", numbers_csv());
  if (drawing::can_draw()) {
    const drawing::Picture picture = scatter(names, pairs, numbers_.heading());
    files.add(folder_ + "/scatter.png", picture.png());
    files.add(folder_ + "/scatter.svg", picture.svg());
    numbers_.add_sheets(files, folder_, "what was predicted, and what it is", "largest errors first");
  }
  files.commit();
}

}  // namespace millrace
