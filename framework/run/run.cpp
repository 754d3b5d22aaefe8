#include "run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/out_of_memory.h"
#include "base/shell.h"
#include "checkpoint/run_folder.h"
#include "millrace/error.h"
#include "millrace/util/output_file.h"
#include "prepare/stop_rules.h"
#include "run/card.h"
#include "run/kept_files.h"
#include "run/training.h"
#include "stages/missing_files.h"
#include "weight_files/weights.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

// "": this process writes no files.
fs::path make_folder_of(const PreparedRun& run) {
  const RunParams& params = run.pipeline.run;
  if (params.folder.empty() || run.options.only_main || !run.options.is_first()) return {};
  if (!run.resume_point) return make_run_folder(params.folder, params.name);
  const fs::path& folder = run.resume_point->run;
  std::error_code error;
  fs::create_directories(folder, error);  // it may be gone, where checkpoints lie elsewhere
  if (error) fail(ErrorKind::usage, "the run's folder '{}' cannot be made: {}", folder.string(), error.message());
  return folder;
}

// What the files of a training are like is for its weights; in other graphs it is compared with what the weights say.
void look_at_images(PreparedRun& run) {
  constexpr std::uint64_t kMostCompared = 1000;
  const auto threads = static_cast<unsigned>(run.data_threads());
  run.options.doing("looking at some images");
  if (run.main().trains()) {
    if (!run.pipeline.run.folder.empty()) run.images = summary_of_files(run.main(), threads);
  } else if (const auto images = image_summary_from(run.weights.metadata)) {
    run.audience.warn_once(unlike_images(*images, run.main(), kMostCompared, threads));
  }
}

}  // namespace

Run::~Run() {
  const Error given_up(ErrorKind::peer, "it was given up");
  run_.leave(&given_up);
  if (checkpointer_) checkpointer_->stop();  // it fetches from replicas
  barriers_.clear();
  run_.graphs.clear();  // their gates call what goes with this
}

RunResult Run::go() {
  RunResult result;
  try {
    result = train();
    if (run_.options.group != nullptr) run_.audience.observers().flush({});  // has sent what this process has to tell
    leave_together(run_);
  } catch (...) {
    end_with(current_error());
  }
  RunEnd end;
  end.epoch = result.epoch;
  end.step = result.step;
  end.signal = result.signal;
  end.stopped = result.stopped;
  end.weights_file = result.weights_file;
  try {
    run_.audience.end(std::move(end));
  } catch (const Error& error) {
    if (result.weights_file.empty()) throw;
    fail(ErrorKind::run, "{}; the run is done, and its weights are in '{}'", error.what(), result.weights_file);
  }
  return result;
}

void Run::end_with(Error error) {
  if (lacks_memory(error)) error = with_memory(error, "", run_.memory(), run_.host_memory());
  run_.leave(&error);
  const auto add = [&error](const std::string& lost) {
    if (!lost.empty()) error = {error.kind(), fmt::format("{}; {}", error.what(), lost)};
  };
  if (checkpointer_) add(checkpointer_->stop());  // what it still writes is told before the end
  if (weights_) add(weights_->finish_best());
  error = wrong_number() && error.kind() == ErrorKind::run ? with_advice(error) : with_checkpoint(error);
  RunEnd end;
  end.error = error.what();
  try {
    run_.audience.end(std::move(end));
  } catch (const Error& lost) {
    run_.audience.warn(lost.what());
  }
  throw error;
}

RunResult Run::train() {
  const fs::path folder = make_folder_of(run_);
  ResumePoint* const from = run_.resume_point ? &*run_.resume_point : nullptr;
  RunLog& log = run_.audience.log();
  run_.audience.observers().restart_clock(std::max(seconds_, from != nullptr ? from->checkpoint.state.seconds : 0));
  if (run_.pipeline.network && run_.options.is_first() && !run_.options.only_main) look_at_images(run_);  // what writers write says it
  make_writers(folder);
  log.set_folder(folder);
  if (!folder.empty()) keep_run(run_, folder);
  run_.open_graphs();
  warn_of_memory(run_);
  make_barriers();
  watch_gates();
  start_replicas(run_);
  if (from != nullptr) {
    checkpointer_->restore(*from, run_.steps.first);
    if (run_.options.is_first()) log.found().bad_samples.restore(from->checkpoint.state);  // the others tell it theirs
  }
  Training training({run_, barriers_, weights_.get(), checkpointer_.get()});
  RunResult result = training.run();
  result.folder = folder.string();
  for (const auto& barrier : barriers_) barrier->end();  // a rank may have read ahead of one that has stopped
  run_.graphs.clear();                                   // stages stop, and may warn of what they could not finish
  result.not_finite = !run_.main().trains() && log.found().numbers.steps() > 0;
  if (!run_.main().trains()) return result;
  if (run_.options.hooks.activity) run_.options.hooks.activity->set("the weights to be written", true);
  save_results(result);
  return result;
}

void Run::make_writers(const fs::path& folder) {
  const Pipeline& pipeline = run_.pipeline;
  if (!pipeline.network) return;
  fs::path rescue;
  if (!run_.options.folders.rescue.empty() && !folder.empty())
    rescue = fs::path(run_.options.folders.rescue) / run_.places.name_of(folder);
  Observers& observers = run_.audience.observers();
  const auto warn = [&observers](std::string text) { observers.warn(std::move(text)); };
  const auto tell_best = [&requests = run_.audience.requests()](const Best& best, const std::string& file,
                                                                const std::string& why) {
    RequestEvent request{.kind = RequestKind::save, .by = StopRules::kBest, .text = {}};
    if (why.empty()) {
      requests.complete(std::move(request), best.step, file);
    } else {
      requests.refuse(std::move(request), why);
    }
  };
  weights_ = std::make_unique<WeightsWriter>(
      run_.view(), WeightsWriter::Setting{.folder = folder,
                                          .rescue = rescue,
                                          .writes = !pipeline.run.folder.empty() && !run_.options.only_main,
                                          .tells_exports = pipeline.checkpoint.by_default,
                                          .metadata = [this] { return weights_metadata(run_); },
                                          .advise = [this](const Error& error) { return with_advice(error); },
                                          .warn = warn,
                                          .tell_best = tell_best});
  if (!run_.saves_checkpoints()) return;
  std::map<std::string, std::string> classes;
  if (run_.weights.from.fresh.empty()) classes = metadata_of(classes_from(run_.weights.metadata));
  checkpointer_ = std::make_unique<Checkpointer>(
      Checkpointer::Run{.pipeline = pipeline,
                        .places = run_.places,
                        .stages = saved_stages(run_.main()),
                        .steps_per_epoch = run_.main().data().steps_per_epoch(),
                        .metadata = std::move(classes),
                        .record = run_.record()},
      run_.view(), *weights_,
      Checkpointer::Listener{.warn = warn,
                             .tell = [&observers](CheckpointEvent event) { observers.tell(std::move(event)); },
                             .sync = [&observers] { observers.sync(); }});
  if (!run_.options.is_first()) return;
  checkpointer_->open(folder, run_.resume_point ? &*run_.resume_point : nullptr,
                      rescue.empty() ? rescue : rescue / "checkpoints");
}

void Run::make_barriers() {
  Group* const group = run_.options.group;
  if (group == nullptr) return;
  run_.audience.share();
  for (std::size_t g = 0; g < run_.graphs.size(); ++g) {
    const bool counts = g == 0 && run_.main().trains();
    const auto channel = Group::kSteps + static_cast<std::uint32_t>(g);
    barriers_.push_back(
        std::make_unique<StepBarrier>(*group, channel, run_.audience.requests(), counts, budget_of(*run_.builds[g]), g != 0));
  }
}

// Before the first start of a graph.
void Run::watch_gates() {
  for (std::size_t g = 0; g < run_.graphs.size(); ++g) {
    Graph::Agree agree;  // null: this process is alone
    if (!barriers_.empty()) {
      agree = [barrier = barriers_[g].get()](Graph::StepReady ready, auto answer) {
        barrier->step_is_ready(std::move(ready), std::move(answer));
      };
    }
    if (g == 0 && run_.options.only_data) {
      agree = [](const Graph::StepReady& ready, const auto& answer) {
        Graph::StepAgreed agreed = Graph::StepAgreed::alone(ready);
        agreed.leave_out = true;
        answer(std::move(agreed));
      };
    }
    if (g == 0 && checkpointer_) agree = checkpointer_->watch(std::move(agree));
    run_.graphs[g]->on_step_ready(std::move(agree));
  }
}

// The weights and the last checkpoint, each where it can be. The run fails when its own folder does not take one of them.
void Run::save_results(RunResult& result) {
  if (!weights_) return;
  result.weights_file = weights_->save_last(result.step);
  std::string lost;
  ErrorKind kind = ErrorKind::run;
  try {
    if (checkpointer_) checkpointer_->finish();
  } catch (const Error& error) {
    if (run_.pipeline.checkpoint.by_default && result.signal == 0) {  // neither the file nor who will resume the run asks for it
      run_.audience.warn(error.what());
    } else {
      lost = error.what();
      kind = error.kind();
    }
    if (!lost.empty() && !result.weights_file.empty()) lost += fmt::format("; the weights are in '{}'", result.weights_file);
  }
  weights_->finish_best();
  const bool keeps_best = run_.pipeline.best && !folder().empty();
  if (const std::optional<Best> best = keeps_best ? weights_->best_there() : std::nullopt) {
    result.best =
        fmt::format("'{}', {} = {:.4g} after step {}", weights_->best_path().string(), best->figure, best->value, best->step);
  }
  write_card(result);
  if (!weights_->lost().empty()) {
    lost = weights_->lost() + (lost.empty() ? "" : "; ") + lost;
    kind = ErrorKind::run;
  }
  if (!lost.empty()) {
    const char* const advice =
        run_.options.folders.rescue.empty() ? "; --rescue FOLDER names another place, for the next time" : "";
    fail(kind, "{}{}", lost, advice);
  }
  if (!newest_checkpoint().empty()) result.go_on = command_with(run_.options.commands.resume, "--resume", folder());
}

// Weights without it are as good: what goes wrong is no reason to fail.
void Run::write_card(const RunResult& result) {
  if (result.weights_file.empty()) return;
  try {
    OutputFile file((fs::path(result.weights_file).parent_path() / "card.md").string(), OutputFile::Sync::later);
    file.write(model_card({run_, barriers_, weights_.get(), checkpointer_.get()}, result, {folder(), began_}));
    file.commit();
  } catch (const Error& error) {
    run_.audience.warn(fmt::format("the weights have no card.md beside them: {}", error.what()));
  }
}

std::string Run::command_with(const std::string& command, const char* option, const fs::path& folder) const {
  return fmt::format("{} {} {}", command.empty() ? shell_text({"pipeline-run", run_.pipeline.file}) : command, option,
                     shell_word(folder.string()));
}

Error Run::with_checkpoint(const Error& error) const {
  const RunOptions& options = run_.options;
  const bool says_it = options.is_first() && error.kind() != ErrorKind::usage;
  if (!says_it || !run_.saves_checkpoints() || folder().empty()) return error;
  const fs::path rescued = checkpointer_ ? checkpointer_->rescued() : fs::path();
  if (!rescued.empty()) {  // it lies in its run's folder, whatever the file says
    const char* here = run_.pipeline.checkpoint.folder.empty() ? "--resume" : "--set checkpoint.folder= --resume";
    return {error.kind(), fmt::format("{}; to resume from '{}': {}", error.what(), rescued.string(),
                                      command_with(options.commands.resume, here, rescued.parent_path().parent_path()))};
  }
  const std::string newest = newest_checkpoint();
  if (newest.empty()) return {error.kind(), fmt::format("{}; the run has no checkpoint yet", error.what())};
  return {error.kind(), fmt::format("{}; the newest checkpoint is '{}'; to resume from it: {}", error.what(), newest,
                                    command_with(options.commands.resume, "--resume", folder()))};
}

Error Run::with_advice(const Error& error) const {
  if (!run_.options.is_first()) return error;
  const RunParams& params = run_.pipeline.run;
  std::string text = error.what();
  if (params.on_nan == "skip" && wrong_number()) {
    text += fmt::format("; more than nan_limit = {} steps in a row were not finite", params.nan_limit);
  }
  text += "; " + newest_words(checkpointer_.get());
  if (!folder().empty()) {
    text += fmt::format("; {} names the layer where it begins",
                        command_with(run_.options.commands.explain, "--explain-nan", folder()));
  }
  return {error.kind(), std::move(text)};
}

bool Run::may_roll_back() const {
  return run_.pipeline.run.on_nan == "rollback" && wrong_number() && !run_.options.only_main && !newest_checkpoint().empty();
}

// Where the run went back to the newest checkpoint before, and has written none since, the weights of that may be the trouble:
// then `latest` names the one before it.
RunOptions Run::rollback_options() {
  const WrongNumber wrong = wrong_number().value();
  RunOptions options = run_.options;
  options.from = {};
  options.weights.clear();
  options.resume.run = folder().string();
  options.resume.rate_factor = run_.audience.requests().factor(wrong.step) * run_.pipeline.run.nan_rate_factor;
  std::string checkpoint = newest_checkpoint();
  const bool was_in_vain = run_.options.resume.rate_factor && run_.resume_point && run_.resume_point->path.string() == checkpoint;
  if (was_in_vain) checkpoint = checkpointer_->point_before(run_.resume_point->checkpoint.state.step);
  options.resume.notice = fmt::format("{}: the run goes back to '{}', with {:g} times the learning rate of the file",
                                      wrong.text(), checkpoint, *options.resume.rate_factor);
  return options;
}

}  // namespace millrace
