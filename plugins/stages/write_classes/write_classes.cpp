#include "write_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/metrics/class_scores.h"
#include "millrace/plugin.h"
#include "millrace/stage.h"
#include "millrace/util/csv_head.h"

namespace millrace {
namespace {

std::string file_of(const WriteClasses::Params& params) {
  const bool is_folder = params.file.empty() || params.file.ends_with('/');
  return params.file + (!is_folder ? "" : params.format == "jsonl" ? "predictions.jsonl" : "predictions.csv");
}

bool writes_json(const WriteClasses::Params& params) {
  if (params.format != "auto") return params.format == "jsonl";
  const std::string file = file_of(params);
  for (const char* end : {".jsonl", ".ndjson", ".json"}) {
    if (file.ends_with(end)) return true;
  }
  if (file.ends_with(".csv")) return false;
  fail(ErrorKind::usage, "file: '{}' ends in neither .csv nor .jsonl; set format = \"csv\" or \"jsonl\"", file);
}

// The shortest text that reads back as the same number.
template <class Number>
void append_number(std::string& text, Number value) {
  if (std::isfinite(value))
    fmt::format_to(std::back_inserter(text), "{}", value);
  else
    text += "null";
}

}  // namespace

void WriteClasses::describe(StageDescription<Params>& d) {
  d.name("write_classes").text("Writes the most probable classes of each image and their scores, as CSV or JSON lines.");
  d.input(payload::kPredictions).serial().in_recipes(RecipeRole::sink).writes({"classes"});
  d.params.add("file", &Params::file)
      .text(
          "file in the run's folder, or an absolute path. Without a name, as in \"\" or \"/found/\": predictions.csv, or "
          "predictions.jsonl with format = \"jsonl\"");
  d.params.add("format", &Params::format)
      .choices({"auto", "csv", "jsonl"})
      .text("auto: by the extension, .csv or .jsonl")
      .in_recipes();
  d.params.add("top", &Params::top).range(1).unit("classes").text("classes per row, most probable first").in_recipes();
  d.params.add("columns", &Params::columns)
      .choices({"top", "classes"})
      .text("CSV: the classes of `top` and their scores; or the predicted class and each class's score")
      .in_recipes();
}

WriteClasses::WriteClasses(const Params& params, const DataContext& context)
    : params_(params),
      context_(context),
      json_(writes_json(params)),
      by_class_(params.columns == "classes"),
      probabilities_(context.network != nullptr && context.network->layers.back().op == "softmax"),
      classes_(context.classes) {
  if (context.network == nullptr) fail(ErrorKind::usage, "[network] is missing: this stage writes its output");
  const Shape& output = context.network->output();
  if (output.elements() != output[0]) {
    fail(ErrorKind::usage, "the network's output is a map, {}, not a list of classes; write_features writes maps",
         to_string(output));
  }
  const auto outputs = static_cast<std::size_t>(output[0]);
  if (by_class_ && json_) fail(ErrorKind::usage, "columns = \"classes\" is for CSV; in JSON lines top = {} lists all", outputs);
  top_ = by_class_ ? outputs : std::min(static_cast<std::size_t>(params.top), outputs);
  outputs_ = classes_;
  if (classes_.size() == outputs) return;
  outputs_.clear();
  for (std::size_t i = 0; i < outputs; ++i) outputs_.push_back(std::to_string(i));
}

void WriteClasses::open() {
  path_ = output_path(context_, "file", file_of(params_));
  if (!classes_.empty() && classes_.size() != outputs_.size()) {
    context_.run->warn(
        fmt::format("{}: the network has {} outputs and there are {} classes: classes in '{}' are written as numbers",
                    context_.place(), outputs_.size(), classes_.size(), file_of(params_)));
  }
}

void WriteClasses::stop() noexcept {
  line_.stop();
  if (!file_) return;
  try {
    const std::string kept = file_->keep();
    context_.run->warn(fmt::format("'{}' is incomplete and keeps its temporary name, '{}'", path_, kept));
  } catch (...) {  // the run has already ended with another error
  }
  file_.reset();
}

void WriteClasses::write(const Predictions& share) {
  try {
    write_rows(share);
  } catch (...) {
    file_.reset();
    throw;
  }
}

void WriteClasses::write_rows(const Predictions& share) {
  if (!file_) {
    file_.emplace(path_);
    if (!json_) file_->write(names_row());
  }
  finite_.add(share);
  for (std::uint32_t i = 0; i < share.count; ++i) {
    const Predictions::Sample& sample = share.samples[i];
    if (!sample.counts && sample.fault.empty()) continue;
    if (sample.counts) rank(share.result().row(i));
    text_.clear();
    place_.clear();
    sample.append_place(place_);
    json_ ? append_object(sample) : append_row(sample);
    file_->write(text_);
  }
  if (!share.last) return;
  file_->commit();
  file_.reset();
  finite_.end_pass(context_);
}

void WriteClasses::rank(std::span<const float> outputs) {
  const ClassScores scores(outputs, probabilities_);
  const auto key = [&](std::size_t i) { return rank_key(outputs[i]); };
  ranked_.resize(outputs.size());
  std::iota(ranked_.begin(), ranked_.end(), std::size_t{0});
  std::partial_sort(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(top_), ranked_.end(),
                    [&](std::size_t a, std::size_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
  scores_.clear();
  for (std::size_t i = 0; i < top_; ++i) scores_.push_back(scores.probability(ranked_[i]));
}

// A probability is the network's output, in float32.
void WriteClasses::append_score(std::size_t i) {
  probabilities_ ? append_number(text_, static_cast<float>(scores_[i])) : append_number(text_, scores_[i]);
}

std::string WriteClasses::names_row() const {
  std::vector<std::string> names = {"path", "label"};
  if (by_class_) {
    names.emplace_back("predicted");
    names.insert(names.end(), outputs_.begin(), outputs_.end());
    names.emplace_back("error");
    return csv_head(names);
  }
  for (std::size_t i = 1; i <= top_; ++i) {
    for (const char* column : {"class", "score"}) names.push_back(fmt::format("{}_{}", column, i));
  }
  names.emplace_back("error");
  return csv_head(names);
}

void WriteClasses::append_row(const Predictions::Sample& sample) {
  append_csv(text_, place_);
  text_ += ',';
  if (sample.label >= 0) append_csv(text_, name_of(sample.label));
  if (!sample.counts) {
    append_csv(text_.append(by_class_ ? 1 + top_ : 2 * top_, ',') += ',', sample.fault);
  } else {
    by_class_ ? append_scores_by_class() : append_best_classes();
    text_ += ',';
  }
  text_ += "\r\n";
}

void WriteClasses::append_best_classes() {
  for (std::size_t i = 0; i < top_; ++i) {
    text_ += ',';
    append_csv(text_, outputs_[ranked_[i]]);
    text_ += ',';
    append_score(i);
  }
}

void WriteClasses::append_scores_by_class() {
  append_csv(text_ += ',', outputs_[ranked_.front()]);
  place_of_.resize(ranked_.size());
  for (std::size_t i = 0; i < ranked_.size(); ++i) place_of_[ranked_[i]] = i;
  for (const std::size_t place : place_of_) {
    text_ += ',';
    append_score(place);
  }
}

void WriteClasses::append_object(const Predictions::Sample& sample) {
  text_ += "{\"path\":";
  append_json(text_, place_);
  text_ += ",\"label\":";
  sample.label >= 0 ? append_json(text_, name_of(sample.label)) : void(text_ += "null");
  if (!sample.counts) {
    append_json(text_ += ",\"classes\":[],\"scores\":[],\"error\":", sample.fault);
    text_ += "}\n";
    return;
  }
  text_ += ",\"classes\":[";
  for (std::size_t i = 0; i < top_; ++i) {
    if (i > 0) text_ += ',';
    append_json(text_, outputs_[ranked_[i]]);
  }
  text_ += "],\"scores\":[";
  for (std::size_t i = 0; i < top_; ++i) {
    if (i > 0) text_ += ',';
    append_score(i);
  }
  text_ += "]}\n";
}

// Valid until the next call.
std::string_view WriteClasses::name_of(std::int32_t label) {
  const auto index = static_cast<std::size_t>(label);
  if (index < classes_.size()) return classes_[index];
  number_ = std::to_string(label);
  return number_;
}

}  // namespace millrace

MILLRACE_PLUGIN("write_classes", "1.0", "Classes of images, as CSV or JSON lines.") {
  registry.add_stage<millrace::WriteClasses>();
}
