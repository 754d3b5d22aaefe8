#include "run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "base/json.h"
#include "config/document.h"
#include "millrace/error.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr double kSmoothing = 20;  // steps

// What an event has besides its figures.
const std::set<std::string> kNoFigures = {
    "event",          "epoch", "step",   "elapsed_seconds", "graph", "samples",  "best_step", "seconds",     "stream_hash",
    "resident_bytes", "seed",  "epochs", "first_step",      "steps", "replicas", "signal",    "bad_samples", "images_per_second"};

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "metrics.jsonl", ignored);
}

class Reader {
 public:
  explicit Reader(RunRecord& run) : run_(run) {}

  void read(const Json& line) {
    const std::string event = line.value("event", "");
    if (event == "start" || event == "resume") begin(line, event == "resume");
    if (event == "step") step(line);
    if (event == "epoch") take(line, "train", false);
    if (event == "validate") take(line, line.value("graph", "validate"), true);
    if (event == "end") end(line);
    if (event == "request" && line.value("request", "") == "stop") stopped_ = true;
    run_.seconds = line.value("elapsed_seconds", run_.seconds);
  }

 private:
  void begin(const Json& line, bool resumes) {
    run_.epochs = line.value("epochs", 0.0);
    run_.steps = line.value("steps", std::uint64_t{0});
    run_.state = "no end";
    stopped_ = false;
    if (!resumes) return;
    const std::uint64_t done = line.value("step", std::uint64_t{0});
    for (auto& [name, curve] : run_.curves) curve.forget_after(done);
  }
  void step(const Json& line) {
    run_.step = line.value("step", run_.step);
    for (const auto& [name, value] : line.items()) {
      if (value.is_number() && !kNoFigures.contains(name)) plot("train." + name, value.get<double>(), kSmoothing);
    }
  }
  // Validation is drawn where it was; an epoch's figures stand in the table alone, since its steps are drawn.
  void take(const Json& line, const std::string& graph, bool draws) {
    run_.step = line.value("step", run_.step);
    for (const auto& [name, value] : line.items()) {
      if (!value.is_number() || kNoFigures.contains(name)) continue;
      const std::string figure = fmt::format("{}.{}", graph, name);
      run_.figures[figure] = value.get<double>();
      if (draws) plot(figure, value.get<double>(), 0);
    }
    if (!draws) run_.figures["images_per_second"] = line.value("images_per_second", 0.0);
  }
  void end(const Json& line) {
    run_.step = line.value("step", run_.step);
    run_.state = stopped_ || line.contains("signal") || run_.step < run_.steps ? "stopped" : "done";
  }
  void plot(const std::string& name, double value, double smoothing) {
    run_.curves.try_emplace(name, smoothing).first->second.add(run_.step, value);
  }

  RunRecord& run_;
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
  if (!file) fail(ErrorKind::usage, "'{}' is no folder of a run: it has no metrics.jsonl", folder.string());
  RunRecord run;
  run.folder = folder;
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(folder, ignored);
  run.name = (whole.parent_path().filename() / whole.filename()).string();
  run.state = "no end";
  run.pipeline = pipeline_in(folder);
  Reader reader(run);
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line, nullptr, false);
    json.is_object() ? reader.read(json) : void(++run.unread_lines);
  }
  return run;
}

std::vector<fs::path> run_folders(const std::vector<std::string>& named) {
  std::vector<fs::path> folders;
  std::set<fs::path> known;  // a pattern such as runs/photos/* has a run and `latest`, which leads to it
  for (const std::string& name : named) {
    if (is_run(name)) {
      if (known.insert(fs::canonical(name)).second) folders.emplace_back(name);
      continue;
    }
    const std::size_t before = folders.size();
    std::error_code error;
    for (fs::directory_iterator entry(name, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
      if (!entry->is_symlink(error) && is_run(entry->path())) folders.push_back(entry->path());  // `latest` is one of them
    }
    if (folders.size() == before)
      fail(ErrorKind::usage, "'{}' is no folder of a run, and holds none: there is no metrics.jsonl", name);
    std::sort(folders.begin() + static_cast<std::ptrdiff_t>(before), folders.end());
  }
  return folders;
}

}  // namespace millrace
