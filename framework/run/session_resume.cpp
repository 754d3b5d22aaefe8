// Which checkpoint a session goes on behind: where they are looked for, and which one is taken.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/folder_names.h"
#include "millrace/error.h"
#include "millrace/storage.h"
#include "run/fetched_weights.h"
#include "run/run_log.h"
#include "run/session.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

fs::path checkpoint_folder(const CheckpointPlan& plan, const fs::path& run) {
  if (plan.folder.empty()) return run / "checkpoints";
  return fs::path(plan.folder) / run.parent_path().filename() / run.filename();
}

}  // namespace

fs::path Session::checkpoint_folder_of(const fs::path& run) const { return checkpoint_folder(pipeline_.checkpoint, run); }

Storage* Session::checkpoint_storage() const {
  const std::string& folder = pipeline_.checkpoint.folder;
  return is_remote(folder) ? &registry_.storage(folder) : nullptr;
}

std::unique_ptr<CheckpointPlace> Session::checkpoint_place_of(const fs::path& run) const {
  return checkpoint_place(checkpoint_folder_of(run), checkpoint_storage());
}

// Runs of this name that have a place for checkpoints, the newest first: they are named by their dates. With a storage it may be
// runs of another machine, which have no folder here yet.
std::vector<fs::path> Session::runs_with_checkpoints() const {
  const fs::path runs = fs::path(pipeline_.run.folder) / pipeline_.run.name;
  std::set<std::string, std::greater<>> names;
  if (Storage* const storage = checkpoint_storage()) {
    const std::string all = join_url(pipeline_.checkpoint.folder, runs.filename().string());
    if (storage->is_empty(all)) return {};
    storage->list(all, [&](const Storage::Object& object) {
      const std::size_t slash = object.name.find('/');
      if (slash != std::string::npos) names.insert(object.name.substr(0, slash));
    });
  } else {
    for (const std::string& name : names_in(runs)) {
      if (has_folder(checkpoint_folder_of(runs / name))) names.insert(name);
    }
  }
  std::vector<fs::path> found;
  for (const std::string& name : names) found.push_back(runs / name);
  return found;
}

bool Session::has_checkpoints() const {
  const GraphPlan& main = options_.graph.empty() ? pipeline_.graphs.front() : *pipeline_.graph(options_.graph);
  return pipeline_.checkpoint.wanted && pipeline_.network && trains(main) && !options_.only_main;
}

fs::path Session::run_folder() const {
  if (pipeline_.run.folder.empty() || options_.only_main || !is_first()) return {};
  return resumed_ ? resumed_run_ : make_run_folder(pipeline_.run.folder, pipeline_.run.name);
}

// Before anything else is looked at. Rank 0 chooses for all processes.
void Session::find_checkpoint() {
  if (!has_checkpoints()) {
    if (!options_.resume || options_.replays) return;
    fail(ErrorKind::usage,
         "{}: --resume goes on behind a checkpoint: that takes [checkpoint] in the file, and a graph that trains",
         pipeline_.file);
  }
  if (pipeline_.run.folder.empty()) {
    fail(ErrorKind::usage, "{}: [checkpoint] writes beside the run's files, and run.folder = \"\" writes none", pipeline_.file);
  }
  if (Storage* const storage = checkpoint_storage()) storage->look(pipeline_.checkpoint.folder);  // finds mistakes early
  const bool begins_elsewhere = !options_.weights.empty() || options_.from.epoch > 0 || options_.from.step > 0;
  if (options_.resume && begins_elsewhere && !options_.replays) {
    fail(ErrorKind::usage, "--resume takes step and weights of the checkpoint: leave out --from and --weights");
  }
  if (!options_.resume && (!pipeline_.checkpoint.resume || begins_elsewhere)) return;

  doing("reading the checkpoint");
  try {
    if (is_first()) choose_checkpoint();
  } catch (...) {
    if (options_.group != nullptr) share_choice(true);
    throw;
  }
  if (options_.group != nullptr) share_choice(false);
  if (resumed_) options_.from = {resumed_->checkpoint.state.epoch, resumed_->checkpoint.state.step_of_epoch};
}

// The folder of the run that --resume names; "": it names none.
fs::path Session::named_run() const {
  if (!options_.resume || options_.resume->empty()) return {};
  fs::path run = fs::path(*options_.resume).lexically_normal();
  if (!run.has_filename()) run = run.parent_path();  // "runs/x/2026-01-01T00-00-00/"
  std::error_code ignored;
  const bool is_elsewhere = checkpoint_storage() != nullptr;  // a run of another machine has no folder here
  if (!is_elsewhere && !fs::is_directory(run, ignored))
    fail(ErrorKind::usage, "--resume: '{}' is no folder of a run", run.string());
  return run;
}

// Of the run that is named, or of the newest one that has a checkpoint: one that was killed before its first hides none.
void Session::choose_checkpoint() {
  std::vector<std::string> passed_over;  // checkpoints that cannot be used, and why
  const fs::path named = named_run();
  const std::vector<fs::path> runs = named.empty() ? runs_with_checkpoints() : std::vector<fs::path>{named};
  for (const fs::path& run : runs) {
    resumed_ = checkpoint_place_of(run)->newest([&](std::string text) { passed_over.push_back(std::move(text)); });
    if (!resumed_) continue;
    resumed_run_ = run;
    if (run != runs.front()) {
      passed_over.push_back(fmt::format("the run in '{}' has no checkpoint that can be used: the one in '{}' goes on",
                                        runs.front().string(), run.string()));
    }
    for (std::string& text : passed_over) observers_.warn(std::move(text));
    if (options_.resumed_rate_factor) resumed_->checkpoint.state.rate_factor = *options_.resumed_rate_factor;
    return;
  }
  if (!named.empty()) resumed_run_ = named;
  if (!options_.replays) return refuse_to_begin(named, passed_over);
  for (std::string& text : passed_over) observers_.warn(std::move(text));
}

// Of a run that was to go on. With resume = "auto" a first run begins; one whose checkpoints are all damaged does not, since what
// it has done would be lost unseen.
void Session::refuse_to_begin(const fs::path& named, const std::vector<std::string>& passed_over) const {
  if (!options_.resume && passed_over.empty()) return;
  const std::string asked = options_.resume ? "--resume" : "resume = \"auto\"";
  const std::string usable = passed_over.empty() ? "" : " that can be used";
  std::string text = named.empty() ? fmt::format("{}: no run in '{}' has a checkpoint{}", asked,
                                                 (fs::path(pipeline_.run.folder) / pipeline_.run.name).string(), usable)
                                   : fmt::format("{}: the run in '{}' has no checkpoint{}", asked, named.string(), usable);
  if (!passed_over.empty()) {
    text +=
        fmt::format("; to begin a new run, leave out {}, or give it another run.name", options_.resume ? "--resume" : "resume");
    for (const std::string& each : passed_over) text += fmt::format("\n  {}", each);
  }
  fail(ErrorKind::usage, "{}", text);
}

// All processes read the same files.
void Session::share_choice(bool failed) {
  const std::string choice = failed ? "failed" : resumed_ ? fmt::format("+{}", resumed_->path.string()) : "";
  std::vector<std::byte> bytes(choice.size());
  std::ranges::transform(choice, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  options_.group->broadcast(Group::kRun, 0, bytes);
  if (is_first() || bytes.empty()) return;
  std::string text(bytes.size(), '\0');
  std::ranges::transform(bytes, text.begin(), [](std::byte byte) { return static_cast<char>(byte); });
  if (text[0] != '+') fail(ErrorKind::usage, "process 0 has no checkpoint to go on with");
  const fs::path path = text.substr(1);
  const auto place = checkpoint_place(path.parent_path(), checkpoint_storage());
  resumed_ = FoundCheckpoint{path, place->read(path.filename().string())};
}

}  // namespace millrace
