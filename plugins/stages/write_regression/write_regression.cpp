#include "write_regression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <ranges>

#include "millrace/loss.h"
#include "millrace/util/output_file.h"

namespace millrace {

namespace {

using drawing::Point;

constexpr double kMargin = 20, kPanel = 300, kApart = 24, kHeading = 15, kSmall = 11;
constexpr int kMaxColumns = 4;

std::vector<Point> drawn_of(const std::vector<Point>& pairs) {
  std::vector<Point> drawn;
  const std::size_t every = std::max<std::size_t>(1, (pairs.size() + kMaxDots - 1) / kMaxDots);
  for (std::size_t i = 0; i < pairs.size(); i += every) {
    if (std::isfinite(pairs[i].x) && std::isfinite(pairs[i].y)) drawn.push_back(pairs[i]);
  }
  return drawn;
}

void draw_panel(drawing::Picture& picture, Point at, const std::string& name, const std::vector<Point>& pairs) {
  const std::vector<Point> drawn = drawn_of(pairs);
  std::vector<double> values;
  for (const Point& pair : drawn) values.insert(values.end(), {pair.x, pair.y});
  const drawing::Scale scale = drawing::Scale::around(values);
  drawing::Plot plot(picture, {at.x, at.y, kPanel, kPanel}, scale, scale, {.top = name, .x = "target"});
  plot.curve(std::vector<Point>{{scale.low(), scale.low()}, {scale.high(), scale.high()}},
             {.colour = drawing::kFaint, .dashed = true});
  plot.dots(drawn, 2.5, {.colour = drawing::kBlue, .opacity = drawn.size() > 200 ? 0.35 : 0.7});
  const ColumnErrors errors = ColumnErrors::of(pairs);
  picture.text({at.x, at.y + kPanel + 2},
               fmt::format("RMSE {:.4g}, MAE {:.4g}, {}{}", errors.rmse, errors.mae,
                           errors.explained ? fmt::format("R² {:.3f}", *errors.explained) : "no R²: targets are the same",
                           errors.not_finite > 0 ? fmt::format(", {} not finite", errors.not_finite) : ""),
               {.size = kSmall, .colour = drawing::kFaint, .most = kPanel});
}

constexpr std::size_t kMaxCaptions = 3;  // numbers below an image

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
  for (std::size_t k = 0; k < std::min(row.targets.size(), kMaxCaptions); ++k) {
    if (row.targets.size() > 1) captions.push_back({names[k], drawing::kFaint});
    captions.push_back({fmt::format("{:.4g}, is {:.4g}", row.predicted[k], row.targets[k])});
  }
  return captions;
}

}  // namespace

ColumnErrors ColumnErrors::of(const std::vector<Point>& pairs) {
  ColumnErrors errors;
  const auto is_finite = [](const Point& pair) { return std::isfinite(pair.y); };
  errors.count = static_cast<std::size_t>(std::ranges::count_if(pairs, is_finite));
  errors.not_finite = pairs.size() - errors.count;
  const auto count = static_cast<double>(errors.count);
  double mean = 0, squares = 0, spread = 0;
  for (const Point& pair : pairs | std::views::filter(is_finite)) mean += pair.x / count;
  for (const Point& pair : pairs | std::views::filter(is_finite)) {
    const double far = pair.y - pair.x;
    squares += far * far;
    errors.mae += std::abs(far) / count;
    spread += (pair.x - mean) * (pair.x - mean);
  }
  if (errors.count > 0) errors.rmse = std::sqrt(squares / count);
  const bool are_same = std::ranges::all_of(pairs, [&](const Point& pair) { return pair.x == pairs.front().x; });
  if (errors.count > 0 && !are_same) errors.explained = 1 - squares / spread;
  return errors;
}

drawing::Picture scatter(const std::vector<std::string>& names, const std::vector<std::vector<Point>>& pairs,
                         const std::string& heading) {
  const int panels = static_cast<int>(std::min(names.size(), kMaxPanels));
  const int columns = std::max(1, std::min(panels, kMaxColumns)), rows = (panels + columns - 1) / columns;
  const double above = drawing::line_height(kHeading) + drawing::line_height(kSmall) + kMargin;
  const double down = kPanel + drawing::line_height(kSmall) + kApart;
  const double width = columns * (kPanel + kApart) - kApart;
  drawing::Picture picture(width + 2 * kMargin, above + rows * down - kApart + 2 * kMargin);
  picture.text({kMargin, kMargin}, heading, {.size = kHeading, .bold = true, .most = width});
  const std::string below = names.size() > kMaxPanels
                                ? fmt::format("predictions over targets, {} of {} numbers", kMaxPanels, names.size())
                                : "predictions over targets";
  picture.text({kMargin, kMargin + drawing::line_height(kHeading) + 4}, below,
               {.size = kSmall, .colour = drawing::kFaint, .most = width});
  for (int i = 0; i < panels; ++i) {
    const auto at = static_cast<std::size_t>(i);
    draw_panel(picture, {kMargin + i % columns * (kPanel + kApart), kMargin + above + i / columns * down}, names[at], pairs[at]);
  }
  return picture;
}

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
    numbers_.add_sheets(files, folder_, "predictions and labels", "largest errors first");
  }
  files.commit();
}

}  // namespace millrace
