// results.csv: epochs and passes as rows, for spreadsheets. confusion.csv and classes.csv: the newest pass by classes, if the
// loss counts them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "millrace/error.h"
#include "millrace/metrics/class_matrix.h"
#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/earlier_events.h"
#include "millrace/util/json_lines.h"
#include "millrace/util/output_file.h"

namespace millrace {
namespace {

std::string cell(const std::string& text) {
  std::string made;
  append_csv(made, text);
  return made;
}

// A line's cells, without their quotes.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> found(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        found.back() += line[++i];
      } else {
        quoted = !quoted;
      }
    } else if (line[i] == ',' && !quoted) {
      found.emplace_back();
    } else {
      found.back() += line[i];
    }
  }
  return found;
}

constexpr std::size_t kStep = 2, kFixed = 5;  // fixed cells of each row

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); }

// One row per epoch of the main graph and per pass of another. A new metric becomes a new column, and the file is rewritten with
// it. A run that resumes from a checkpoint keeps the rows of earlier steps. A pass whose loss counts a class matrix also writes
// it, replacing that of the same graph's previous pass. Rows in the file are not held in memory.
class ResultsObserver final : public RunObserver {
 public:
  struct Params {};
  static void describe(ObserverDescription<Params>& d) {
    d.name("results").text(
        "Writes results.csv into the run's folder: a row per epoch and validation pass. Pixel class losses add two files about "
        "the newest pass: confusion.csv (predictions of each class) and classes.csv (its accuracy, precision, F1 and IoU). For "
        "other losses, use the stage write_evaluation.");
  }

  void start(const RunStart& e, RunControl& control) override {
    folder_ = e.folder;
    control_ = &control;
    if (!e.resumed || folder_.empty()) return;
    Written before = read_file();
    columns_ = std::move(before.columns);
    rows_ = std::move(before.rows);
    count_again(resumed_at(e));
  }

  void epoch(const EpochEvent& e) override {
    add(e.graph, static_cast<double>(e.epoch), e.step, e.images_per_second, e.seconds, e.figures);
  }
  // A pass may use the best weights, from an earlier step: a separate column holds that step.
  void pass(const PassEvent& e) override {
    std::vector<Figure> figures = e.figures;
    if (e.best_step != 0) figures.push_back({"best_step", static_cast<double>(e.best_step), false, false});
    add(e.graph, e.epoch, e.step, e.images_per_second, e.seconds, figures);
    if (!e.class_matrix.empty()) write_classes(e);
  }
  void sync() override {
    if (file_) check_file();
    if (file_) file_->sync();
  }
  void end(const RunEnd&) override {
    if (is_behind_) write_rows();
    if (file_) file_->finish();
  }

 private:
  struct Row {
    std::string begin;  // graph, epoch
    std::uint64_t step = 0;
    std::string speed;  // images_per_second, seconds
    std::vector<Figure> figures;
  };
  struct Written {
    std::vector<std::string> columns;
    std::vector<Row> rows;
  };

  void add(const std::string& graph, double epoch, std::uint64_t step, double rate, double seconds,
           const std::vector<Figure>& figures) {
    if (folder_.empty()) return;
    rows_.push_back(
        {fmt::format("{},{}", cell(graph), number(epoch)), step, fmt::format("{},{}", number(rate), number(seconds)), figures});
    bool is_new = !file_;
    for (const Figure& figure : figures) {
      if (std::find(columns_.begin(), columns_.end(), figure.name) != columns_.end()) continue;
      columns_.push_back(figure.name);
      is_new = true;
    }
    if (is_new) return write_all();
    file_->write(text(rows_.back()));
    if (file_->has_all()) are_in_file();
  }

  // Removes rows of repeated steps, and updates the steps of the others.
  void count_again(const ResumedAt& at) {
    std::erase_if(rows_, [&](Row& row) { return !step_today(row.step, at); });
    for (Row& row : rows_) {
      row.step = *step_today(row.step, at);
      const auto best = std::ranges::find(row.figures, "best_step", &Figure::name);
      if (best == row.figures.end()) continue;
      const auto step = step_today(static_cast<std::uint64_t>(best->value), at);
      if (step) best->value = static_cast<double>(*step);
    }
  }

  void are_in_file() {
    in_file_ += rows_.size();
    rows_.clear();
  }

  Written read_file() const {
    Written written;
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(folder_ / "results.csv", ignored)) return written;  // reading a pipe may block forever
    std::ifstream file(folder_ / "results.csv");
    std::string line;
    if (!std::getline(file, line)) return written;
    const std::vector<std::string> header = cells(line);
    for (std::size_t i = kFixed; i < header.size(); ++i) written.columns.push_back(header[i]);
    while (std::getline(file, line)) {
      const std::vector<std::string> found = cells(line);
      if (found.size() != header.size()) continue;
      Row row{fmt::format("{},{}", cell(found[0]), found[1]),
              std::strtoull(found[kStep].c_str(), nullptr, 10),
              fmt::format("{},{}", found[3], found[4]),
              {}};
      for (std::size_t i = kFixed; i < found.size(); ++i) {
        if (!found[i].empty()) row.figures.push_back({header[i], std::strtod(found[i].c_str(), nullptr), false, false});
      }
      written.rows.push_back(std::move(row));
    }
    return written;
  }

  struct ByClass {
    std::string confusion, classes;  // rows
  };

  void write_classes(const PassEvent& e) {
    if (folder_.empty()) return;
    ByClass& rows = by_class_[e.graph];
    rows = {};
    const std::string begin = fmt::format("{},{},", cell(e.graph), number(e.epoch));
    const ClassMatrix matrix(e.class_matrix);
    append_confusion(begin, matrix, e.classes, [&](std::string_view more) { rows.confusion += more; });
    append_classes(rows.classes, begin, matrix, e.classes);
    unless_full("confusion.csv", [&] { write_table("confusion.csv", kConfusionColumns, &ByClass::confusion); });
    unless_full("classes.csv", [&] { write_table("classes.csv", kClassColumns, &ByClass::classes); });
  }

  // A full disk must not end the run: the file stays as it was, and the next row or pass writes it completely.
  void unless_full(const std::string& name, const std::function<void()>& write) {
    try {
      write();
    } catch (const Error& error) {
      if (!warned_.insert(name).second) return;
      control_->warn(fmt::format("{} keeps its old content until it can be written: {}", name, error.what()));
    }
  }

  void write_table(const char* name, std::string_view columns, std::string ByClass::*rows) const {
    OutputFile file((folder_ / name).string());
    file.write(fmt::format("graph,epoch,{}\r\n", columns));
    for (const auto& [graph, tables] : by_class_) file.write(tables.*rows);
    file.commit();
  }

  // A new file begins with the column names.
  void check_file() {
    const std::string path = (folder_ / "results.csv").string();
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored) || ignored) return;
    if (!std::exchange(warned_of_moving_, true)) {
      control_->warn(fmt::format("'{}' was moved or removed: rows from here on are in a new file of this name", path));
    }
    write_all();
  }

  void write_all() {
    is_behind_ = true;
    unless_full("results.csv", [this] { write_rows(); });
  }

  // Replaces the file, which stays until all rows are on disk.
  void write_rows() {
    file_.reset();
    const std::string path = (folder_ / "results.csv").string();
    if (!std::filesystem::exists(path)) in_file_ = 0;  // the file was removed
    std::vector<Row> before = in_file_ > 0 ? read_file().rows : std::vector<Row>();
    if (before.size() < in_file_) {
      fail(ErrorKind::run, "'{}' has {} of the {} rows that were written", path, before.size(), in_file_);
    }
    before.resize(in_file_);  // the rest is in rows_
    std::string header = "graph,epoch,step,images_per_second,seconds";
    for (const std::string& column : columns_) header.append(",").append(cell(column));
    OutputFile all(path);
    all.write(header + "\n");
    for (const auto* rows : {&before, &rows_}) {
      for (const Row& row : *rows) all.write(text(row) + "\n");
    }
    all.commit();
    are_in_file();
    file_.emplace(
        path, [this](std::string_view message) { control_->warn(message); }, true);
    is_behind_ = false;
  }

  std::string text(const Row& row) const {
    std::string line = fmt::format("{},{},{}", row.begin, row.step, row.speed);
    for (const std::string& column : columns_) {
      const auto figure =
          std::find_if(row.figures.begin(), row.figures.end(), [&](const Figure& each) { return each.name == column; });
      line += ',';
      if (figure != row.figures.end()) line += number(figure->value);
    }
    return line;
  }

  std::filesystem::path folder_;  // empty: writes nothing
  RunControl* control_ = nullptr;
  std::vector<std::string> columns_;         // metrics
  std::size_t in_file_ = 0;                  // number of rows in the file, its first ones
  std::vector<Row> rows_;                    // rows after those
  std::map<std::string, ByClass> by_class_;  // by graph
  bool warned_of_moving_ = false;
  std::set<std::string> warned_;  // files with a warning already logged
  std::optional<LineFile> file_;
  bool is_behind_ = false;  // results.csv lacks rows or columns
};

MILLRACE_PART { registry.add_observer<ResultsObserver>(); }

}  // namespace
}  // namespace millrace
