// results.csv: epochs and passes as rows, for spreadsheets. confusion.csv and classes.csv: the newest pass by classes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "millrace/class_matrix.h"
#include "millrace/json_lines.h"
#include "millrace/output_file.h"
#include "millrace/plugin.h"

namespace millrace {
namespace {

std::string cell(const std::string& text) {
  std::string made;
  append_csv(made, text);
  return made;
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); }

// A row an epoch of the main graph and a pass of another. A figure that comes for the first time is a new column, and the file is
// written again with it. A pass whose loss counts a class matrix also writes it, in place of that of the same graph's pass
// before.
class ResultsObserver final : public RunObserver {
 public:
  struct Params {};
  static void describe(ObserverDescription<Params>& d) {
    d.name("results").text(
        "Writes results.csv into the run's folder: a row for each epoch and each validation pass; and "
        "confusion.csv and classes.csv: what each class was predicted as in the newest pass.");
  }

  void start(const RunStart& e, RunControl& control) override {
    folder_ = e.folder;
    control_ = &control;
  }

  void epoch(const EpochEvent& e) override {
    add(e.graph, static_cast<double>(e.epoch), e.step, e.images_per_second, e.seconds, e.figures);
  }
  void pass(const PassEvent& e) override {
    add(e.graph, e.epoch, e.step, e.images_per_second, e.seconds, e.figures);
    if (!e.class_matrix.empty()) write_classes(e);
  }

 private:
  struct Row {
    std::string begin;
    std::vector<Figure> figures;
  };

  void add(const std::string& graph, double epoch, std::uint64_t step, double rate, double seconds,
           const std::vector<Figure>& figures) {
    if (folder_.empty()) return;
    rows_.push_back({fmt::format("{},{},{},{},{}", cell(graph), number(epoch), step, number(rate), number(seconds)), figures});
    bool is_new = !file_;
    for (const Figure& figure : figures) {
      if (std::find(columns_.begin(), columns_.end(), figure.name) != columns_.end()) continue;
      columns_.push_back(figure.name);
      is_new = true;
    }
    is_new ? write_all() : file_->write(text(rows_.back()));
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
    append_confusion(rows.confusion, begin, matrix, e.classes);
    append_classes(rows.classes, begin, matrix, e.classes);
    write_table("confusion.csv", kConfusionColumns, &ByClass::confusion);
    write_table("classes.csv", kClassColumns, &ByClass::classes);
  }

  void write_table(const char* name, std::string_view columns, std::string ByClass::*rows) const {
    OutputFile file((folder_ / name).string());
    file.write(fmt::format("graph,epoch,{}\r\n", columns));
    for (const auto& [graph, tables] : by_class_) file.write(tables.*rows);
    file.commit();
  }

  void write_all() {
    file_.emplace((folder_ / "results.csv").string(), [this](std::string_view message) { control_->warn(message); });
    std::string header = "graph,epoch,step,images_per_second,seconds";
    for (const std::string& column : columns_) header.append(",").append(cell(column));
    file_->write(header);
    for (const Row& row : rows_) file_->write(text(row));
  }

  std::string text(const Row& row) const {
    std::string line = row.begin;
    for (const std::string& column : columns_) {
      const auto figure =
          std::find_if(row.figures.begin(), row.figures.end(), [&](const Figure& each) { return each.name == column; });
      line += ',';
      if (figure != row.figures.end()) line += number(figure->value);
    }
    return line;
  }

  std::filesystem::path folder_;  // empty: nothing is written
  RunControl* control_ = nullptr;
  std::vector<std::string> columns_;  // figures
  std::vector<Row> rows_;
  std::map<std::string, ByClass> by_class_;  // of each graph
  std::optional<LineFile> file_;
};

MILLRACE_PART { registry.add_observer<ResultsObserver>(); }

}  // namespace
}  // namespace millrace
