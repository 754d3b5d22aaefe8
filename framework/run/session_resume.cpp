// Which checkpoint a session goes on behind: where they are looked for, and which one is taken.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/folder_names.h"
#include "config/document.h"
#include "millrace/error.h"
#include "millrace/storage.h"
#include "run/checkpoint_format.h"
#include "run/fetched_weights.h"
#include "run/run_log.h"
#include "run/run_name.h"
#include "run/session.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

fs::path whole_path(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

// Names that no run gets come last.
std::vector<std::string> newest_first(std::vector<std::string> names) {
  std::ranges::sort(names, [](const std::string& a, const std::string& b) { return read_run_name(a) > read_run_name(b); });
  return names;
}

// checkpoint.folder of a run, from its record; "": it was not given, or cannot be told.
std::string recorded_folder(const fs::path& run) {
  Diagnostics ignored;
  const auto record = read_document((run / "pipeline.toml").string(), {}, ignored);
  const Value* const table = record ? record->find("checkpoint") : nullptr;
  const Value* const folder = table != nullptr ? table->find("folder") : nullptr;
  return folder != nullptr && folder->kind() == Value::Kind::text ? folder->text() : std::string();
}

}  // namespace

// Before anything is looked for or made.
void Session::check_name() const {
  const fs::path name = fs::path(pipeline_.run.name).lexically_normal();
  if (pipeline_.run.folder.empty() || (!name.empty() && name.is_relative() && *name.begin() != ".." && name != ".")) return;
  fail(ErrorKind::usage, "{}: run.name = \"{}\" leaves run.folder: a name is that of a folder in it, \"x\" or \"x/y\"",
       pipeline_.place_of("run.name"), pipeline_.run.name);
}

fs::path Session::place_name(const fs::path& run) const {
  const fs::path name = whole_path(run).lexically_relative(whole_path(pipeline_.run.folder));
  if (name.has_parent_path() && *name.begin() != "..") return name;
  return run.parent_path().filename() / run.filename();
}

fs::path Session::checkpoint_folder_of(const fs::path& run) const {
  return checkpoint_folder_of(run, pipeline_.checkpoint.folder);
}

// `folder`: as checkpoint.folder says it.
fs::path Session::checkpoint_folder_of(const fs::path& run, const std::string& folder) const {
  return folder.empty() ? run / "checkpoints" : fs::path(folder) / place_name(run);
}

Storage* Session::checkpoint_storage() const {
  const std::string& folder = pipeline_.checkpoint.folder;
  return is_remote(folder) ? &registry_.storage(folder) : nullptr;
}

std::unique_ptr<CheckpointPlace> Session::checkpoint_place_of(const fs::path& run) const {
  return checkpoint_place(checkpoint_folder_of(run), checkpoint_storage());
}

// Runs of this name that have a place for checkpoints: they are named by their dates. A copy of one, "..._backup", is none. Where
// checkpoints lie elsewhere, as in a bucket, a run may have no folder here: it is one of another machine, or its folder is gone.
Session::FoundRuns Session::runs_with_checkpoints() const {
  const fs::path name = fs::path(pipeline_.run.name).lexically_normal(), runs = fs::path(pipeline_.run.folder) / name;
  const std::string& folder = pipeline_.checkpoint.folder;
  std::set<std::string> names;
  if (Storage* const storage = checkpoint_storage()) {
    const std::string all = join_url(folder, name.string());
    if (storage->is_empty(all)) return {};
    storage->list(all, [&](const Storage::Object& object) {
      const std::size_t slash = object.name.find('/');
      if (slash != std::string::npos) names.insert(object.name.substr(0, slash));
    });
  } else {
    for (const std::string& each : names_in(folder.empty() ? runs : fs::path(folder) / name)) {
      if (has_folder(checkpoint_folder_of(runs / each))) names.insert(each);
    }
  }
  FoundRuns found;
  for (const std::string& each : newest_first({names.begin(), names.end()})) {
    (read_run_name(each) ? found.runs : found.others).push_back(runs / each);
  }
  return found;
}

bool Session::has_checkpoints() const {
  const GraphPlan& main = options_.graph.empty() ? pipeline_.graphs.front() : *pipeline_.graph(options_.graph);
  return pipeline_.checkpoint.wanted && pipeline_.network && trains(main) && !options_.only_main;
}

fs::path Session::run_folder() const {
  if (pipeline_.run.folder.empty() || options_.only_main || !is_first()) return {};
  if (!resumed_) return make_run_folder(pipeline_.run.folder, pipeline_.run.name);
  std::error_code error;
  fs::create_directories(resumed_run_, error);  // it may be gone, where checkpoints lie elsewhere
  if (error) fail(ErrorKind::usage, "the run's folder '{}' cannot be made: {}", resumed_run_.string(), error.message());
  return resumed_run_;
}

// A place where nothing can be written is a mistake in the file. Without commit() nothing is written here.
void Session::check_checkpoint_folder() const {
  const std::string& folder = pipeline_.checkpoint.folder;
  if (!is_remote(folder)) return;
  try {
    Storage& storage = registry_.storage(folder);
    storage.look(folder);
    storage.write(join_url(folder, pipeline_.run.name));
  } catch (Error& error) {
    throw error.in(pipeline_.place_of("checkpoint.folder") + ": checkpoint.folder");
  }
}

// Before anything else is looked at. Rank 0 chooses for all processes.
void Session::find_checkpoint() {
  if (!options_.allow_change.empty() && !options_.resume && !pipeline_.checkpoint.resume && !options_.only_check) {
    fail(ErrorKind::usage,
         "--allow-change says in what a run may differ from the checkpoint that it goes on behind: it belongs to --resume, or to "
         "checkpoint.resume = \"auto\"");
  }
  if (!has_checkpoints()) {
    if (!options_.resume || options_.replays) return;
    fail(ErrorKind::usage,
         "{}: --resume goes on behind a checkpoint: that takes [checkpoint] in the file, and a graph that trains",
         pipeline_.title());
  }
  if (pipeline_.run.folder.empty()) {
    fail(ErrorKind::usage,
         "{}: [checkpoint] writes beside the run's files, and run.folder = \"\" writes none: name a folder, or take "
         "[checkpoint] out",
         pipeline_.place_of("run.folder"));
  }
  check_checkpoint_folder();
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

// The step of the epoch with which a run goes on whose batches had another size; nothing: they had not. As many samples are done:
// a batch that is done in part is made again. Larger ones may leave none to do.
std::optional<std::uint64_t> Session::step_with_other_batches() {
  if (!resumed_) return std::nullopt;
  const std::uint64_t was = resumed_->checkpoint.state.batch_size, is = builds_.front()->batch().size;
  if (was == 0 || was == is) return std::nullopt;
  const std::uint64_t samples = options_.from.step * was, again = samples % is, an_epoch = builds_.front()->steps_per_epoch();
  if (samples / is >= an_epoch) return an_epoch;
  if (again > 0 && is_first()) {
    observers_.warn(
        fmt::format("{}: batches hold {} samples now, and {} before: {} samples of epoch {} are trained on a second time",
                    pipeline_.title(), is, was, again, options_.from.epoch + 1));
  }
  return samples / is;
}

const char* Session::asked() const {
  if (options_.replays) return "--explain-nan";
  return options_.resume ? "--resume" : "resume = \"auto\"";
}

// The folder of a run, or a checkpoint in its place.
Session::NamedRun Session::named_run() const {
  if (!options_.resume || options_.resume->empty()) return {};
  fs::path run = fs::path(*options_.resume).lexically_normal();
  if (!run.has_filename()) run = run.parent_path();  // "runs/x/2026-01-01T00-00-00/"
  std::string checkpoint;
  if (is_checkpoint_name(run.filename().string())) {
    checkpoint = run.filename().string();
    run = run.parent_path();
    if (run.filename() == "checkpoints") {
      run = run.parent_path();
    } else if (!pipeline_.checkpoint.folder.empty()) {
      run = fs::path(pipeline_.run.folder) / pipeline_.run.name / run.filename();
    }
  }
  const bool may_be_gone = !pipeline_.checkpoint.folder.empty();  // its checkpoints lie elsewhere
  require_run_folder(asked(), run, may_be_gone);
  return {std::move(run), std::move(checkpoint)};
}

// Another checkpoint was the newest, or the numbers behind this one went wrong: what comes behind it counts no more.
bool Session::leaves_a_course() const {
  return options_.resumed_rate_factor || (names_checkpoint() && latest_then_ != resumed_->path.filename());
}

// Of the run that is named, or of the newest one that has a checkpoint: one that was killed before its first hides none.
void Session::choose_checkpoint() {
  std::vector<std::string> passed_over;  // checkpoints that cannot be used, and why
  const auto pass_over = [&](std::string text) { passed_over.push_back(std::move(text)); };
  const NamedRun named = named_run();
  const auto [runs, others] = named.run.empty() ? runs_with_checkpoints() : FoundRuns{{named.run}, {}};
  for (const fs::path& run : runs) {
    const auto place = checkpoint_place_of(run);
    latest_then_ = place->pointed_to("latest");
    const auto read = [&](const std::string& name) { return place->read(name); };
    resumed_ = named.checkpoint.empty() ? place->newest(pass_over)
                                        : first_whole({named.checkpoint}, checkpoint_folder_of(run), read, pass_over);
    if (!resumed_) continue;
    resumed_run_ = run;
    if (run != runs.front()) {
      pass_over(fmt::format("the run in '{}' has no checkpoint that can be used: the one in '{}' goes on", runs.front().string(),
                            run.string()));
    }
    if (std::string text = hidden_by_name(others, resumed_->checkpoint.state.step); !text.empty()) pass_over(std::move(text));
    for (std::string& text : passed_over) observers_.warn(std::move(text));
    if (options_.resumed_rate_factor) resumed_->checkpoint.state.rate_factor = *options_.resumed_rate_factor;
    return;
  }
  if (!named.run.empty()) resumed_run_ = named.run;
  if (!options_.replays) return begin_or_refuse(named, passed_over, hidden_by_name(others, 0));
  for (std::string& text : passed_over) observers_.warn(std::move(text));
}

// Nothing was found to go on behind. With resume = "auto" a first run begins; one whose checkpoints are all damaged does not,
// since what it has done would be lost unseen.
void Session::begin_or_refuse(const NamedRun& named, const std::vector<std::string>& passed_over, const std::string& hidden) {
  const std::string elsewhere = (hidden.empty() ? hidden : "; " + hidden) + checkpoints_elsewhere(named.run);
  if (!options_.resume && passed_over.empty()) {
    if (!elsewhere.empty()) observers_.warn("a new run begins" + elsewhere);
    return;
  }
  const std::string usable = passed_over.empty() ? "" : " that can be used";
  std::string text = named.run.empty()
                         ? fmt::format("{}: no run in '{}' has a checkpoint{}", asked(),
                                       (fs::path(pipeline_.run.folder) / pipeline_.run.name).string(), usable)
                         : fmt::format("{}: the run in '{}' has no checkpoint{}", asked(), named.run.string(), usable);
  text += elsewhere;
  if (!named.checkpoint.empty()) {
    text = fmt::format("{}: '{}' cannot be used; --resume '{}' goes on behind the newest one that can", asked(), named.checkpoint,
                       named.run.string());
    for (const std::string& each : passed_over) text += fmt::format("\n  {}", each);
  } else if (!passed_over.empty()) {
    text +=
        fmt::format("; to begin a new run, leave out {}, or give it another run.name", options_.resume ? "--resume" : "resume");
    for (const std::string& each : passed_over) text += fmt::format("\n  {}", each);
  }
  fail(ErrorKind::usage, "{}", text);
}

// Of folders with a name of a user's, the first that has checkpoints behind step `done`. "": none has, and nobody need know.
std::string Session::hidden_by_name(const std::vector<fs::path>& others, std::uint64_t done) const {
  for (const fs::path& other : others) {
    const std::vector<std::string> names = checkpoint_place_of(other)->names();
    if (names.empty() || step_of_checkpoint(names.front()) <= done) continue;
    return fmt::format(
        "'{0}' has {1}checkpoints, and is passed over, since no run gets such a name: --resume {0} goes on behind them",
        other.string(), done > 0 ? "later " : "");
  }
  return {};
}

// Where it was looked, and where runs have checkpoints: in their own folders, or where checkpoint.folder was before. A clause;
// "": there is nothing to say.
std::string Session::checkpoints_elsewhere(const fs::path& named) const {
  const std::string& folder = pipeline_.checkpoint.folder;
  const std::string looked = folder.empty() ? "" : fmt::format("; looked in checkpoint.folder = \"{}\"", folder);
  const fs::path all = fs::path(pipeline_.run.folder) / pipeline_.run.name;
  std::vector<fs::path> runs{named};
  if (named.empty()) {
    runs.clear();
    for (const std::string& name : newest_first(names_in(all))) runs.push_back(all / name);
  }
  for (const fs::path& run : runs) {
    const fs::path own = run / "checkpoints";
    if (!folder.empty() && has_folder(own) && !checkpoint_names(own).empty()) {
      return fmt::format("{}, and '{}' has some: to go on behind them, leave checkpoint.folder out", looked, own.string());
    }
    const std::string then = recorded_folder(run);
    const fs::path there = then == folder ? fs::path() : checkpoints_on_record(run, then);
    if (there.empty()) continue;
    return fmt::format(
        "{}; the checkpoints of '{}' are in '{}': to go on behind them, say checkpoint.folder = \"{}\" as that run did", looked,
        run.string(), there.string(), then);
  }
  if (options_.resume) return looked;
  // The place may not be there today, as a disk that is not mounted: then all that runs have done begins anew.
  return folder.empty() || runs.empty() ? "" : fmt::format("{}, where no run of '{}' has a checkpoint", looked, all.string());
}

// Where a run has checkpoints whose checkpoint.folder was `folder`; "": nowhere, or its storage does not answer.
fs::path Session::checkpoints_on_record(const fs::path& run, const std::string& folder) const {
  if (folder.empty()) return {};
  try {
    const fs::path there = checkpoint_folder_of(run, folder);
    Storage* const storage = is_remote(folder) ? &registry_.storage(folder) : nullptr;
    return checkpoint_place(there, storage)->names().empty() ? fs::path() : there;
  } catch (const Error&) {
    return {};
  }
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
