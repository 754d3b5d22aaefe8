#include "write_label_scores.h"

#include <bars.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "millrace/loss.h"
#include "millrace/util/output_file.h"

namespace millrace {

namespace {

std::optional<double> average_precision_of(std::span<const LabelScore> scores, std::size_t having) {
  if (having == 0) return std::nullopt;
  std::vector<LabelScore> ranked(scores.begin(), scores.end());
  for (LabelScore& each : ranked) {
    if (std::isnan(each.score)) each.score = -std::numeric_limits<float>::infinity();
  }
  std::ranges::sort(ranked, std::greater{}, &LabelScore::score);
  double area = 0;
  std::size_t found = 0;
  for (std::size_t begin = 0, end = 0; begin < ranked.size(); begin = end) {
    const std::size_t before = found;
    for (; end < ranked.size() && ranked[end].score == ranked[begin].score; ++end) found += ranked[end].has ? 1 : 0;
    area += static_cast<double>(found) / static_cast<double>(end) * static_cast<double>(found - before);
  }
  return area / static_cast<double>(having);
}

constexpr std::size_t kMaxLabelCaptions = 4;  // labels below an image

bool has(float number) { return number >= 0.5F; }
double probability(float output) { return 1 / (1 + std::exp(-double{output})); }

// The loss binary_cross_entropy of the row.
double label_loss_of(const NumberRow& row) {
  double loss = 0;
  for (std::size_t k = 0; k < row.targets.size(); ++k) {
    const double x = row.predicted[k], y = row.targets[k], rest = std::log1p(std::exp(-std::abs(x)));
    loss += y * (std::max(-x, 0.0) + rest) + (1 - y) * (std::max(x, 0.0) + rest);
  }
  return std::isnan(loss) ? std::numeric_limits<double>::infinity() : loss / static_cast<double>(row.targets.size());
}

using OfLabel = std::function<std::optional<double>(const LabelFigures&)>;

// The mean over labels that occur in an image.
double mean_of(const std::vector<LabelFigures>& labels, const OfLabel& figure) {
  double sum = 0, count = 0;
  for (const LabelFigures& each : labels) {
    if (each.having == 0) continue;
    sum += figure(each).value_or(0);
    count += 1;
  }
  return quotient(sum, count);
}

// All labels, or as many as a picture has rows for: those of lowest average precision, lowest first.
std::vector<std::size_t> drawn_labels(const std::vector<LabelFigures>& labels) {
  std::vector<std::size_t> places(labels.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (places.size() <= drawing::kMaxRows) return places;
  std::ranges::stable_sort(places, {}, [&](std::size_t k) { return labels[k].average_precision.value_or(2); });
  places.resize(drawing::kMaxRows);
  return places;
}

}  // namespace

LabelFigures LabelFigures::of(std::span<const LabelScore> scores) {
  LabelFigures figures;
  figures.count = scores.size();
  for (const LabelScore& each : scores) {
    figures.having += each.has ? 1 : 0;
    figures.predicted += each.predicted ? 1 : 0;
    figures.right += each.has && each.predicted ? 1 : 0;
  }
  figures.average_precision = average_precision_of(scores, figures.having);
  return figures;
}

void WriteLabelScores::describe(StageDescription<Params>& d) {
  d.name("write_label_scores")
      .text(
          "Compares predicted labels, several per image, with the samples': precision, recall, F1 and average precision of each "
          "label, sheets.");
  d.input(payload::kPredictions).serial().in_recipes(RecipeRole::sink).writes({"numbers"});
  ComparisonParams::describe(d.params);
  d.params.add("threshold", &Params::threshold)
      .range(0.001, 0.999)
      .text("predict labels whose sigmoid exceeds this")
      .in_recipes();
}

// Requests the batch, which holds the labels.
void WriteLabelScores::request(const Params&, const StageSite&, CompileRequest& request) { request.needs_image = true; }

WriteLabelScores::WriteLabelScores(const Params& params, const DataContext& context)
    : JointSink(context),
      params_(params),
      context_(context),
      least_(std::log(params.threshold / (1 - params.threshold))),
      numbers_(params, context, {.error = label_loss_of, .captions = [this](const NumberRow& row) { return captions_of(row); }}) {
}

void WriteLabelScores::open() { folder_ = folder_of_first(context_, "folder", params_.folder, "figures.csv"); }

void WriteLabelScores::write(const Predictions& share) {
  numbers_.add(share);
  if (!share.last) return;
  numbers_.join(*this);
  std::vector<LabelFigures> labels;
  for (std::size_t k = 0; k < numbers_.names().size(); ++k) {
    std::vector<LabelScore> scores;
    for (const NumberRow& row : numbers_.rows()) scores.push_back(score_of(row, k));
    labels.push_back(LabelFigures::of(scores));
  }
  if (!numbers_.rows().empty()) report_figures(context_, figures(labels));
  if (!folder_.empty()) write_files(labels);
  numbers_.clear();
}

LabelScore WriteLabelScores::score_of(const NumberRow& row, std::size_t label) const {
  return {row.predicted[label], has(row.targets[label]), row.predicted[label] > least_};
}

// Labels that are predicted or present, mistakes first.
std::vector<drawing::Caption> WriteLabelScores::captions_of(const NumberRow& row) const {
  std::vector<drawing::Caption> wrong, right;
  for (std::size_t k = 0; k < row.targets.size(); ++k) {
    const LabelScore score = score_of(row, k);
    if (!score.has && !score.predicted) continue;
    const std::string text = fmt::format("{} {:.0f} %", numbers_.names()[k], 100 * probability(row.predicted[k]));
    if (score.has == score.predicted) {
      right.push_back({text});
    } else {
      wrong.push_back({text + (score.has ? ", is there" : ", is not there"), drawing::kRed});
    }
  }
  wrong.insert(wrong.end(), right.begin(), right.end());
  if (wrong.empty()) return {{"no label"}};
  if (wrong.size() > kMaxLabelCaptions) {
    const std::size_t more = wrong.size() - kMaxLabelCaptions + 1;
    wrong.resize(kMaxLabelCaptions - 1);
    wrong.push_back({fmt::format("and {} more", more), drawing::kFaint});
  }
  return wrong;
}

std::vector<std::string> WriteLabelScores::reported_figures() const {
  const LabelFigures each{.count = 1, .having = 1, .predicted = 1, .right = 1, .average_precision = 1.0};
  std::vector<std::string> names;
  for (const Figure& figure : figures(std::vector<LabelFigures>(numbers_.names().size(), each))) names.push_back(figure.name);
  return names;
}

// The means over all labels first, in the order of figures.csv. Undefined values of a label are left out.
std::vector<Figure> WriteLabelScores::figures(const std::vector<LabelFigures>& labels) const {
  double right = 0, exact = 0;
  for (const NumberRow& row : numbers_.rows()) {
    std::size_t of_row = 0;
    for (std::size_t k = 0; k < labels.size(); ++k) {
      const LabelScore score = score_of(row, k);
      of_row += score.has == score.predicted && !std::isnan(score.score) ? 1 : 0;
    }
    right += static_cast<double>(of_row);
    exact += of_row == labels.size() ? 1 : 0;
  }
  const auto images = static_cast<double>(numbers_.rows().size());
  const auto average_precision = [](const LabelFigures& each) { return each.average_precision; };
  std::vector<Figure> figures;
  const auto add = [&](std::string name, double value, bool is_detail = false) {
    figures.push_back({std::move(name), value, true, true, is_detail});
  };
  add("accuracy", quotient(right, images * static_cast<double>(labels.size())));
  add("exact_match", quotient(exact, images));
  add("mean_f1", mean_of(labels, [](const LabelFigures& each) { return each.f1(); }));
  add("mean_average_precision", mean_of(labels, average_precision));
  for (std::size_t k = 0; k < labels.size(); ++k) {
    const auto of_label = [&](const char* kind, const std::optional<double>& value) {
      if (value) add(fmt::format("{}.{}", kind, numbers_.names()[k]), *value, true);
    };
    of_label("recall", labels[k].recall());
    of_label("precision", labels[k].precision());
    of_label("f1", labels[k].f1());
    of_label("average_precision", labels[k].average_precision);
  }
  return figures;
}

std::string WriteLabelScores::figures_csv(const std::vector<LabelFigures>& labels) const {
  const auto is_finite = [](const NumberRow& row) {
    return std::ranges::all_of(row.predicted, [](float each) { return std::isfinite(each); });
  };
  const auto not_finite = static_cast<std::ptrdiff_t>(numbers_.rows().size()) - std::ranges::count_if(numbers_.rows(), is_finite);
  std::string text = fmt::format("figure,value\r\nimages,{}\r\n", numbers_.rows().size());
  if (not_finite > 0) text += fmt::format("not_finite,{}\r\n", not_finite);
  for (const Figure& figure : figures(labels)) {
    if (!figure.is_detail) text += fmt::format("{},{}\r\n", figure.name, figure.value);
  }
  return text;
}

std::string WriteLabelScores::labels_csv(const std::vector<LabelFigures>& labels) const {
  std::string text = "label,images,having,predicted,precision,recall,f1,average_precision\r\n";
  for (std::size_t k = 0; k < labels.size(); ++k) {
    const LabelFigures& each = labels[k];
    append_csv(text, numbers_.names()[k]);
    fmt::format_to(std::back_inserter(text), ",{},{},{}", each.count, each.having, each.predicted);
    for (const std::optional<double>& figure : {each.precision(), each.recall(), each.f1(), each.average_precision}) {
      text += figure ? fmt::format(",{}", *figure) : ",";
    }
    text += "\r\n";
  }
  return text;
}

std::string WriteLabelScores::scores_csv() const {
  return numbers_.csv("_probability", [](float output) { return fmt::format("{}", probability(output)); });
}

drawing::Picture WriteLabelScores::bars(const std::vector<LabelFigures>& labels) const {
  drawing::BarTable table{"Scores of labels", numbers_.heading(), {}, {}};
  const std::vector<std::size_t> places = drawn_labels(labels);
  for (const std::size_t k : places) table.names.push_back(numbers_.names()[k]);
  if (places.size() < labels.size()) {
    table.subtitle += fmt::format("; the {} of {} labels of the lowest average precision", places.size(), labels.size());
  }
  const auto add = [&](const char* title, drawing::Colour colour, const OfLabel& figure) {
    std::vector<double> values;
    for (const std::size_t k : places) values.push_back(figure(labels[k]).value_or(std::numeric_limits<double>::quiet_NaN()));
    table.columns.push_back({title, std::move(values), true, colour});
  };
  add("average precision", drawing::kBlue, [](const LabelFigures& each) { return each.average_precision; });
  add("F1", drawing::kBlue, [](const LabelFigures& each) { return each.f1(); });
  add("recall", drawing::kSky, [](const LabelFigures& each) { return each.recall(); });
  add("precision", drawing::kGreen, [](const LabelFigures& each) { return each.precision(); });
  std::vector<double> having;
  for (const std::size_t k : places) having.push_back(static_cast<double>(labels[k].having));
  table.columns.push_back({"images that have it", std::move(having), false, drawing::kFaint});
  return draw(table);
}

void WriteLabelScores::write_files(const std::vector<LabelFigures>& labels) const {
  OutputFiles files(context_);
  files.add(folder_ + "/figures.csv", figures_csv(labels));
  files.add(folder_ + "/labels.csv", labels_csv(labels));
  files.add(folder_ + "/scores.csv", scores_csv());
  if (drawing::can_draw()) {
    files.add(folder_ + "/labels.png", bars(labels).png());
    numbers_.add_sheets(files, folder_, "labels that were predicted or are there; mistakes are red", "highest loss first");
  }
  files.commit();
}

}  // namespace millrace
