// pipeline-run: runs a pipeline file.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>

#include "common/arguments.h"
#include "config/plan.h"
#include "find_rate.h"
#include "last_words.h"
#include "millrace/plugin.h"
#include "overfit.h"
#include "predict.h"
#include "run/check.h"
#include "run/explain.h"
#include "run/processes.h"
#include "run/rollback.h"
#include "run/session.h"
#include "run/socket_group.h"
#include "signal_watch.h"

namespace {

// "3" or "3:120".
millrace::StartingPoint starting_point(const std::string& text) {
  constexpr std::int64_t kMost = 1'000'000'000;
  const std::size_t colon = text.find(':');
  const std::int64_t epoch = millrace::integer("--from", text.substr(0, colon), 1, kMost);
  const std::int64_t step = colon == std::string::npos ? 1 : millrace::integer("--from", text.substr(colon + 1), 1, kMost);
  return {static_cast<std::uint64_t>(epoch - 1), static_cast<std::uint64_t>(step - 1)};
}

// The folder of a run among the arguments that are no options; "": there is none.
std::string take_folder(std::vector<std::string>& arguments) {
  const auto is_folder = [](const std::string& argument) {
    std::error_code ignored;
    return std::filesystem::is_directory(argument, ignored);
  };
  const auto found = std::find_if(arguments.begin(), arguments.end(), is_folder);
  if (found == arguments.end()) return {};
  std::string folder = *found;
  arguments.erase(found);
  return folder;
}

// Null: the run is no trial.
std::shared_ptr<millrace::Trial> chosen_trial(const std::string& overfit, bool find_rate) {
  if (!overfit.empty() && find_rate) {
    millrace::fail(millrace::ErrorKind::usage, "--overfit and --find-rate are two trials: choose one");
  }
  if (find_rate) return std::make_shared<millrace::FindRate>();
  if (overfit.empty()) return nullptr;
  return std::make_shared<millrace::Overfit>(millrace::integer("--overfit", overfit, 1, millrace::Overfit::kMostSteps));
}

void require_predict_alone(const std::string& images, const std::vector<std::string>& files, bool alone) {
  using millrace::ErrorKind;
  if (images.empty()) millrace::fail(ErrorKind::usage, "--out belongs to --predict IMAGES");
  if (!files.empty()) {
    millrace::fail(ErrorKind::usage,
                   "--predict makes its pipeline from the weights: leave out '{}', or run its own graph with --graph",
                   files.front());
  }
  if (alone) return;
  millrace::fail(
      ErrorKind::usage,
      "--predict runs one graph in one process: leave out --graph, --from, --resume, --processes, --overfit and --find-rate");
}

void set_up(const std::shared_ptr<millrace::Trial>& trial, millrace::SessionOptions& options) {
  options.observer = trial;
  options.rate_factor = [trial](std::uint64_t step) { return trial->rate_factor(step); };
  options.most_steps = trial->most_steps();
  options.only_main = true;
}

}  // namespace

int main(int argc, char** argv) {
  millrace::SignalWatch::block();
  return millrace::run_tool("pipeline-run", [&] {
    millrace::SessionOptions options;
    bool check = false, find_rate = false, json = false, quiet = false, resume = false;
    std::string hash = "stream";
    std::vector<std::string> overrides;
    std::vector<std::string> files;
    std::string from, processes = "1", overfit, explain, predict, out;
    millrace::Arguments arguments(
        "pipeline-run", "FILE [options] | --predict IMAGES --weights W [options]",
        "Runs the pipeline that a TOML file describes.\n"
        "Exit codes: 0 done, 1 the run failed, 2 the command line or the file is wrong, 3 the data is\n"
        "unusable, 4 a device failed, 129, 130 or 143 stopped by a signal after saving, 138 another process\n"
        "of the run was lost.");
    arguments
        .flag("--check", "check all but the images, which are listed and not read; print shapes and memory bounds, and stop",
              check)
        .repeated("--set", "KEY=VALUE", "change a key of the file: --set train.batch.size=64", overrides)
        .option("--devices", "D", "instead of run.devices: auto, all, cpu, cpu*2, cuda, cuda:0,2, cuda:GPU-8f6d", options.devices)
        .option("--processes", "N", "share the devices among N processes of this machine, to the same bits (1)", processes)
        .option("--graph", "NAME", "run only this graph, once", options.graph)
        .option("--weights", "FILE",
                "start from these weights (safetensors, or .pth of PyTorch; a URL too) instead of network.weights",
                options.weights)
        .option("--predict", "IMAGES",
                "without FILE: predict these images, a folder, list or shards, prepared as the run of --weights validated",
                predict)
        .option("--out", "FOLDER", "with --predict: where predictions are written (predictions)", out)
        .option("--from", "E[:S]",
                "start at epoch E, or at its step S (both from 1); weights come from --weights, momentum starts at 0", from)
        .flag("--resume", "go on behind the newest checkpoint of the run whose folder is given too, or of the newest run", resume)
        .repeated("--allow-change", "KEY", "with --resume: this key may differ from the file that the run began with",
                  options.allow_change)
        .option("--explain-nan", "RUN",
                "do the steps of the run in this folder again, and name the first layer whose numbers are not finite", explain)
        .option("--rescue", "FOLDER",
                "weights and the last checkpoint go there when the run's folder does not take them at the end; exit code 1",
                options.rescue)
        .option("--overfit", "N", "train on N batches until the loss is a tenth, at most 200 steps; exit code 1 when it is not",
                overfit)
        .flag("--find-rate", "raise the learning rate from 1e-7 to 10 over 100 steps, and propose one", find_rate)
        .option("--hash", "WHAT", "stream hashes cover: stream, samples and draws; pixels, also what the network receives", hash)
        .flag("--guard", "look for writes outside the samples' slots after each stage, and name the stage and the sample",
              options.guard)
        .flag("--json", "events on standard output, one JSON object a line: observe.metrics.standard_output", json)
        .flag("--quiet", "only warnings on standard error: observe.console.quiet", quiet);
    if (!arguments.read(argc, argv, files)) return 0;
    if (resume) options.resume = take_folder(files);
    millrace::Registry registry;  // mistakes in the file are said once, so before other processes are made
    registry.load_all();
    const bool alone = options.graph.empty() && from.empty() && !resume && processes == "1" && overfit.empty() && !find_rate;
    if (!predict.empty() || !out.empty()) {
      require_predict_alone(predict, files, alone);
      if (out.empty()) out = "predictions";
      files = {millrace::write_prediction({predict, options.weights, out}, registry)};
      options.weights.clear();  // the file names them
      options.graph = "predict";
    }
    if (files.size() != 1) {
      millrace::fail(millrace::ErrorKind::usage, "one pipeline file is needed, found {}; see pipeline-run --help", files.size());
    }

    if (hash != "stream" && hash != "pixels") {
      millrace::fail(millrace::ErrorKind::usage, "--hash: expected stream or pixels, found '{}'", hash);
    }
    options.hash_input = hash == "pixels";
    if (!from.empty()) options.from = starting_point(from);
    if (json) overrides.emplace_back("observe.metrics.standard_output=true");
    if (quiet) overrides.emplace_back("observe.console.quiet=true");

    const bool other_weights = !options.weights.empty();
    millrace::Pipeline pipeline = millrace::load_pipeline(files.front(), overrides, registry, other_weights);
    const std::shared_ptr<millrace::Trial> trial = chosen_trial(overfit, find_rate);
    if (trial) {
      if (!options.graph.empty() || !from.empty() || resume || processes != "1") {
        millrace::fail(millrace::ErrorKind::usage,
                       "--overfit and --find-rate run the main graph from its first step in one process: leave out --graph, "
                       "--from, --resume and --processes");
      }
      const std::vector<std::string> changes = trial->overrides(pipeline);
      overrides.insert(overrides.end(), changes.begin(), changes.end());
      pipeline = millrace::load_pipeline(files.front(), overrides, registry, other_weights);
      pipeline.stop = {};
      pipeline.checkpoint = {};
      pipeline.best.reset();
      set_up(trial, options);
    }
    if (check && !resume) pipeline.checkpoint.resume = false;
    // Before any thread is made.
    const auto size = static_cast<int>(millrace::integer("--processes", processes, 1, 64));
    options.processes = size;
    const millrace::Processes others(check ? 1 : size);
    millrace::Activity activity;
    const millrace::SignalWatch signals(activity, [](int code) { _exit(code); });
    std::optional<millrace::SocketGroup> group;
    if (others.size() > 1) {
      group.emplace(millrace::SocketGroup::Setting{
          .rank = others.rank(), .sockets = others.sockets(), .fate = [&](int rank) { return others.fate(rank); }});
      options.group = &*group;
    }
    std::signal(SIGPIPE, SIG_IGN);  // `pipeline-run --json | head` ends the reader, not the training
    options.activity = &activity;
    options.only_check = check;
    options.stop_signal = &signals.signal();
    options.checkpoint_signals = &signals.checkpoints();
    const millrace::LastWords last_words([](int code) { _exit(code); });
    try {
      if (check) {
        millrace::Session session(pipeline, registry, options);
        session.prepare();
        fmt::print("{}", millrace::check_report(session));
        return 0;
      }
      if (!explain.empty()) {
        pipeline.observers.clear();
        fmt::print("{}", millrace::explain_numbers(pipeline, registry, options, explain));
        return 0;
      }
      const millrace::RunResult result =
          millrace::run_with_rollbacks(pipeline, registry, options, [&](const millrace::Session& session) {
            if (!quiet && others.rank() == 0 && !session.batch_choice().empty())
              fmt::print(stderr, "{}\n", session.batch_choice());
          });
      if (!quiet && !result.weights_file.empty()) {
        fmt::print(stderr, "weights: {}\n", result.weights_file);
      } else if (!quiet && !result.folder.empty()) {
        fmt::print(stderr, "folder: {}\n", result.folder);
      } else if (!quiet && !predict.empty()) {
        fmt::print(stderr, "predictions: {}\n", out);
      }
      if (!quiet && result.signal != 0 && result.checkpointed) {
        fmt::print(stderr, "to go on: pipeline-run {} --resume {}\n", files.front(), result.folder);
      }
      if (trial) fmt::print(json ? stderr : stdout, "{}", trial->text());
      if (trial && result.signal == 0) return trial->succeeded() ? 0 : 1;
      return result.signal == 0 ? 0 : 128 + result.signal;
    } catch (millrace::Error& error) {
      if (others.rank() == 0) throw;
      if (error.kind() == millrace::ErrorKind::usage) return millrace::exit_code(error.kind());  // process 0 says the same
      throw error.in(fmt::format("process {}", others.rank()));
    }
  });
}
