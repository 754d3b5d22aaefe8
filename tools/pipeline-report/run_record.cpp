#include "run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include "millrace/error.h"
#include "millrace/util/earlier_events.h"
#include "toml/document.h"
#include "util/json.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr double kSmoothing = 20;  // steps

// Keys of an event that are not metrics.
const std::set<std::string> kNoFigures = {
    "event",          "epoch", "step",   "elapsed_seconds", "graph", "samples",  "best_step", "seconds",     "stream_hash",
    "resident_bytes", "seed",  "epochs", "first_step",      "steps", "replicas", "signal",    "bad_samples", "images_per_second"};

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "metrics.jsonl", ignored);
}

// Empty if it is not a number. null stands for a non-finite number.
std::optional<double> number_of(const Json& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

class Reader {
 public:
  explicit Reader(RunRecord& run) : run_(run) {}

  // Throws Json::exception for a field of the wrong type. `step`: of the line, in the run's current count.
  void read(const Json& line, std::uint64_t step) {
    step_ = step;
    const std::string event = line.value("event", "");
    if (event == "start" || event == "resume") begin(line);
    if (event == "step") this->step(line);
    if (event == "epoch") take(line, "train", false);
    if (event == "validate") take(line, line.value("graph", "validate"), true);
    if (event == "end") end(line);
    if (event == "request" && line.value("request", "") == "stop") stopped_ = true;
    run_.seconds = line.value("elapsed_seconds", run_.seconds);
  }

 private:
  void begin(const Json& line) {
    run_.epochs = line.value("epochs", 0.0);
    run_.steps = line.value("steps", std::uint64_t{0});
    run_.state = "no end";
    stopped_ = false;
  }
  void step(const Json& line) {
    run_.step = step_;
    for (const auto& [name, value] : line.items()) {
      const std::optional<double> number = number_of(value);
      if (number && !kNoFigures.contains(name)) plot("train." + name, run_.step, *number, kSmoothing);
    }
  }
  // A validation is plotted at its step, and that of the best weights at theirs, unless a point exists already. An epoch's
  // metrics are only in the table, since its steps are plotted.
  void take(const Json& line, const std::string& graph, bool draws) {
    run_.step = step_;
    note(line, "higher_is_better", graph, run_.higher_is_better);
    note(line, "details", graph, run_.details);
    const auto best_step = line.value("best_step", std::uint64_t{0});
    for (const auto& [name, value] : line.items()) {
      const std::optional<double> number = number_of(value);
      if (!number || kNoFigures.contains(name)) continue;
      const std::string figure = fmt::format("{}.{}", graph, name);
      run_.figures[figure] = *number;
      if (!draws || (best_step != 0 && has_curve(figure))) continue;
      plot(figure, best_step != 0 ? best_step : run_.step, *number, 0);
    }
    if (!draws && line.contains("images_per_second")) {
      if (const auto rate = number_of(line["images_per_second"])) run_.figures["images_per_second"] = *rate;
    }
  }
  static void note(const Json& line, const char* key, const std::string& graph, std::set<std::string>& names) {
    for (const Json& name : line.value(key, Json::array())) names.insert(fmt::format("{}.{}", graph, name.get<std::string>()));
  }
  void end(const Json& line) {
    run_.step = step_;
    const bool was_stopped = stopped_ || line.contains("signal");
    // A pass of --graph is not a training step.
    const bool evaluates = !was_stopped && run_.step == 0 && !run_.figures.empty();
    run_.state = evaluates ? "evaluation" : was_stopped || run_.step < run_.steps ? "stopped" : "done";
  }
  bool has_curve(const std::string& figure) const {
    const auto found = run_.curves.find(figure);
    return found != run_.curves.end() && found->second.size() > 0;
  }
  void plot(const std::string& name, std::uint64_t step, double value, double smoothing) {
    run_.curves.try_emplace(name, smoothing).first->second.add(step, value);
  }

  RunRecord& run_;
  std::uint64_t step_ = 0;  // step of the current line
  bool stopped_ = false;
};

Value pipeline_in(const fs::path& folder) {
  std::ifstream file(folder / "pipeline.toml");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  Diagnostics errors;
  return parse_toml(text, (folder / "pipeline.toml").string(), errors).value_or(Value(Table{}));
}

}  // namespace

RunRecord read_run(const fs::path& folder) {
  std::ifstream file(folder / "metrics.jsonl");
  if (!file) fail(ErrorKind::usage, "'{}' is not a folder of a run: it has no metrics.jsonl", folder.string());
  RunRecord run;
  run.folder = folder;
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(folder, ignored);
  run.name = (whole.parent_path().filename() / whole.filename()).string();
  run.state = "no end";
  run.pipeline = pipeline_in(folder);
  Reader reader(run);
  const RecordedSteps steps(folder / "metrics.jsonl");
  std::size_t number = 0;
  for (std::string line; std::getline(file, line); ++number) {
    try {
      const Json json = Json::parse(line);
      const auto step = json.contains("step") ? steps.today(number, json["step"]) : run.step;
      if (step) reader.read(json, *step);
    } catch (const Json::exception&) {
      ++run.unread_lines;
    }
  }
  return run;
}

namespace {

// The folder itself if it is a run; else the runs in it; else those in its subfolders, as in `runs`. Sorted. `latest` is a link
// to one of them.
std::vector<fs::path> runs_in(const fs::path& folder, int levels) {
  if (is_run(folder)) return {folder};
  std::vector<fs::path> folders, found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (!entry->is_symlink(error) && entry->is_directory(error)) folders.push_back(entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    fail(ErrorKind::usage, "the folder '{}' cannot be read: {}", folder.string(), error.message());
  std::sort(folders.begin(), folders.end());
  for (int below = 0; below < levels && found.empty(); ++below) {
    for (const fs::path& each : folders) {
      const std::vector<fs::path> runs = runs_in(each, below);
      found.insert(found.end(), runs.begin(), runs.end());
    }
  }
  return found;
}

}  // namespace

std::vector<fs::path> run_folders(const std::vector<std::string>& named) {
  std::vector<fs::path> folders;
  std::set<fs::path> known;  // a pattern such as runs/photos/* matches a run and `latest`, which links to it
  for (const std::string& name : named) {
    const std::vector<fs::path> found = runs_in(name, 2);
    if (found.empty()) fail(ErrorKind::usage, "'{}' is not a folder of a run, and holds none: there is no metrics.jsonl", name);
    for (const fs::path& run : found) {
      if (known.insert(fs::canonical(run)).second) folders.push_back(run);
    }
  }
  return folders;
}

}  // namespace millrace
