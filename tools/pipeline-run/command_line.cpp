#include "command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "checkpoint/run_folder.h"
#include "common/arguments.h"
#include "millrace/detail/value.h"
#include "millrace/error.h"
#include "millrace/util/paths.h"
#include "util/shell.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPipeline = "pipeline.toml";

// The option that names a run's folder, and the folder.
struct NamedRun {
  std::string option, folder;
};
NamedRun named_run(const CommandLine& line) {
  const std::string resumed = line.options.resume.run.value_or("");
  if (!resumed.empty()) return {"--resume", resumed};
  if (!line.explain.empty()) return {"--explain-nan", line.explain};
  std::error_code ignored;
  const bool measures = !line.options.graph.empty() && fs::is_directory(line.options.weights, ignored);
  return measures ? NamedRun{"--weights", line.options.weights} : NamedRun{};
}

// Runs are in runs/NAME/TIME; a checkpoint in RUN/checkpoints/step-..., or elsewhere in NAME/TIME/step-... "" if they were moved.
std::string name_of_run(const fs::path& folder) {
  std::error_code ignored;
  for (fs::path each = fs::canonical(folder, ignored); each.has_relative_path(); each = each.parent_path()) {
    if (read_run_name(each.filename().string())) return each.parent_path().filename().string();
  }
  return {};
}

// For --resume RUN, --explain-nan RUN, and --weights RUN with --graph. The run keeps its name. False if the command line names no
// folder. Throws Error(usage) for a folder without a pipeline.
bool take_file_of_run(CommandLine& line) {
  const auto [option, folder] = named_run(line);
  if (folder.empty()) return false;
  if (!is_readable_file(fs::path(folder) / kPipeline)) {
    fail(ErrorKind::usage,
         "{}: '{}' has no {}, unlike the folder of a run: name the pipeline's file too, or the folder of a run, such as "
         "runs/NAME/latest",
         option, folder, kPipeline);
  }
  line.file = (fs::path(folder) / kPipeline).string();
  line.run_option = option;
  const bool is_named = !line.shorts.name.empty() || std::ranges::any_of(line.overrides, [](const std::string& each) {
    return each.starts_with("run.name=");
  });
  if (const std::string name = name_of_run(folder); !is_named && !name.empty()) {
    line.overrides.push_back("run.name=" + to_toml(Value(name)));
  }
  return true;
}

// The command to use instead if the only argument, apart from options, is a run's folder; "" if it is not.
std::string advice_for_folder(const std::string& argument) {
  if (!is_readable_file(fs::path(argument) / kPipeline)) return {};
  return fmt::format(
      "'{0}' is the folder of a run: --resume {0} resumes it, --graph validate --weights {0} measures it, and --predict IMAGES "
      "--weights {0} predicts with it",
      argument);
}

// Options that are parsed further once all are known.
struct Words {
  std::string from, hash = "stream", processes = "1", verify, predict, trace;
  bool resume = false;
};

Arguments& add_run_options(Arguments& arguments, CommandLine& line, Words& words) {
  return arguments.flag("--check", "check everything except image contents; print shapes and memory bounds, and stop", line.check)
      .repeated("--set", "KEY=VALUE", "set a key of the file: --set train.batch.size=64", line.overrides)
      .option("--epochs", "N", "--set run.epochs=N", line.shorts.epochs)
      .option("--batch", "N", "training batch size: --set train.batch.size=N", line.shorts.batch)
      .option("--lr", "RATE", "learning rate: --set train.optimizer.learning_rate=RATE, or .initial of a schedule",
              line.shorts.rate)
      .option("--name", "NAME", "--set run.name=NAME", line.shorts.name)
      .option("--devices", "D", "instead of run.devices: auto, gpu, 0,1, all, cpu, cpu*2, cuda, cuda:0,2, cuda:GPU-8f6d",
              line.options.devices)
      .option("--processes", "N", "start N ranks on this machine, which share its devices; same bits (1)", words.processes)
      .option("--graph", "NAME", "run only this graph, once", line.options.graph)
      .option(
          "--weights", "FILE",
          "initial weights (safetensors, or PyTorch .pth; a URL; torchvision; the best, else last, of a run's folder) instead of "
          "network.weights; with a run's folder and --graph, FILE is the run's own",
          line.options.weights)
      .option("--predict", "IMAGES",
              "without FILE: predict these images, folders, lists, shards, image files and patterns, prepared as in the "
              "validation of --weights; -: read paths from standard input, and answer each with a JSON line",
              words.predict)
      .option("--watch", "FOLDER",
              "without FILE: predict images as they arrive in this folder, each answered by a JSON line on standard output; a "
              "restart repeats none and misses none",
              line.watch)
      .option("--out", "FOLDER", "with --predict: folder for predictions; with --watch: for the journal (predictions)", line.out)
      .option("--labels", "WHAT",
              "with --predict: also metrics, against labels or numbers of the images (path, column, shards), or a folder of "
              "label or target images",
              line.labels)
      .flag("--strict",
            "with --predict: predict nothing if an image differs from the training images in size, channels, bits or levels; "
            "exit code 3",
            line.strict)
      .option("--from", "E[:S]",
              "start at epoch E, or its step S (both from 1); weights come from --weights, momentum starts at 0", words.from);
}

Arguments& add_fault_options(Arguments& arguments, CommandLine& line, Words& words) {
  return arguments
      .flag("--resume",
            "resume from the newest checkpoint of the given run folder or of the newest run, or from the given checkpoint "
            "folder; without FILE, with that folder's pipeline",
            words.resume)
      .repeated("--allow-change", "KEY", "with --resume: allow a new value of this key", line.options.resume.allow_change)
      .option("--verify", "N", "with --resume: first reread the last N batches before the checkpoint, and compare their hashes",
              words.verify)
      .option("--explain-nan", "RUN", "repeat the run's steps, and name the first layer with numbers that are not finite",
              line.explain)
      .option("--rescue", "FOLDER",
              "folder for weights and the last checkpoint if the run's folder cannot be written at the end; exit code 1",
              line.options.folders.rescue);
}

constexpr const char* kAnyPort = "127.0.0.1:0";

// "0.0.0.0:8080", and not a file: the word after --page is the page's address or the pipeline. A port alone is not an address,
// and is reported.
bool is_address(std::string_view text) {
  const std::string_view port = text.substr(text.rfind(':') + 1);
  return !port.empty() && port.find_first_not_of("0123456789") == std::string_view::npos;
}

Arguments& add_trial_options(Arguments& arguments, CommandLine& line, Words& words) {
  return arguments
      .option("--overfit", "N",
              "train on N batches until the loss falls to a tenth, at most 200 steps; exit code 1 if it does not", line.overfit)
      .flag("--find-rate", "raise the learning rate from 1e-7 to 10 over 100 steps, and propose one", line.find_rate)
      .option("--picture", "FILE.png", "with --find-rate: also draw the losses over the rates", line.picture)
      .option("--hash", "WHAT", "contents of stream hashes: stream, samples and draws; pixels, also the network's input",
              words.hash)
      .flag("--compare-data",
            "read all samples before the first step: ranks must hold the same bytes, and a resumed run the same as before",
            line.options.compare_data)
      .option("--trace", "FILE[:FIRST-LAST]",
              "write a trace of threads and devices, for ui.perfetto.dev; only of these steps, from 1", words.trace)
      .flag("--guard", "detect writes outside samples' slots after each stage, and name the stage and sample", line.options.guard)
      .flag("--json", "events on standard output, one JSON object a line: observe.metrics.standard_output", line.json)
      .option_or("--page", "ADDRESS:PORT", "show the run in a browser, at the printed address: observe.page.address", kAnyPort,
                 is_address, line.page)
      .flag("--top", "curves, stages, queues and devices on the terminal, instead of the progress line: observe.top", line.top)
      .flag("--quiet", "only warnings, bad samples and requested output on standard error: observe.console.quiet", line.quiet);
}

// "3" or "3:120".
StartingPoint starting_point(const std::string& text) {
  constexpr std::int64_t kMax = 1'000'000'000;
  const std::size_t colon = text.find(':');
  const std::int64_t epoch = integer("--from", text.substr(0, colon), 1, kMax);
  const std::int64_t step = colon == std::string::npos ? 1 : integer("--from", text.substr(colon + 1), 1, kMax);
  return {static_cast<std::uint64_t>(epoch - 1), static_cast<std::uint64_t>(step - 1)};
}

// The folder of a run among the other arguments; "" if there is none. Of two arguments, the one that is not a file either must be
// it.
std::string take_folder(std::vector<std::string>& arguments) {
  std::error_code ignored;
  auto found = std::ranges::find_if(arguments, [&](const auto& each) { return std::filesystem::is_directory(each, ignored); });
  if (found == arguments.end() && arguments.size() == 2) {
    const bool is_second = std::filesystem::is_regular_file(arguments.front(), ignored);
    found = arguments.begin() + (is_second ? 1 : 0);
  }
  if (found == arguments.end()) return {};
  std::string folder = std::move(*found);
  arguments.erase(found);
  return folder;
}

// Advice for arguments that look like values without --set.
std::string hint_of_set(const std::vector<std::string>& files) {
  const auto found = std::ranges::find_if(files, [](const std::string& each) { return each.find('=') != each.npos; });
  if (found == files.end()) return {};
  return found->front() == '=' || found->back() == '=' ? ". --set takes KEY=VALUE without blanks around ="
                                                       : fmt::format(". A key is changed by --set {}", *found);
}

[[noreturn]] void refuse_files(const std::vector<std::string>& files, const CommandLine& line, bool resumes) {
  if (files.empty() && resumes) {
    fail(ErrorKind::usage, "--resume needs a pipeline or the folder of a run: FILE --resume, or --resume runs/NAME/latest");
  }
  if (files.empty() && !line.options.weights.empty()) {
    fail(ErrorKind::usage,
         "--weights needs a pipeline: FILE trains from these weights, --graph validate with the folder of a run measures them, "
         "and --predict IMAGES predicts with them");
  }
  fail(ErrorKind::usage, "one pipeline file is needed, found {}{}{}; see pipeline-run --help", files.size(),
       files.empty() ? "" : fmt::format(": '{}'", fmt::join(files, "', '")), hint_of_set(files));
}

// A shell's pattern, runs/photos/*/weights.safetensors, repeats an option's value through `latest`, which links to it.
void drop_named_twice(std::vector<std::string>& arguments, const std::string& taken) {
  std::error_code ignored;
  std::erase_if(arguments, [&](const std::string& each) { return std::filesystem::equivalent(each, taken, ignored); });
}

void check_watch(CommandLine& line, const std::vector<std::string>& files) {
  if (!files.empty()) fail(ErrorKind::usage, "--watch takes one folder: leave out '{}'", fmt::join(files, "', '"));
  if (line.options.weights.empty()) fail(ErrorKind::usage, "--watch needs the weights of a run: --weights FILE");
  if (line.out.empty()) line.out = "predictions";
}

// `whole`: no option requests a part of a run, or several processes.
void check_prediction(const CommandLine& line, const std::vector<std::string>& files, bool whole) {
  if (line.predict.empty()) {
    fail(ErrorKind::usage, "{} belongs to --predict IMAGES", !line.out.empty() ? "--out" : line.strict ? "--strict" : "--labels");
  }
  for (const std::string& file : files) {
    if (!file.ends_with(".toml")) continue;
    fail(ErrorKind::usage, "--predict makes its pipeline from the weights: leave out '{}', or run its own graph with --graph",
         file);
  }
  if (const std::string option = line.shorts.first(); !option.empty()) {
    fail(ErrorKind::usage,
         "{} changes a key of FILE, and --predict makes its own: use --set, as --set predict.batch.size=10 does", option);
  }
  const bool lines = std::ranges::find(line.predict, "-") != line.predict.end() || std::ranges::find(files, "-") != files.end();
  if (lines &&
      (!files.empty() || !line.out.empty() || !line.labels.empty() || line.strict || !line.overrides.empty() || line.check)) {
    fail(ErrorKind::usage,
         "--predict - reads all paths from standard input, and writes lines: leave out other images, --out, --labels, "
         "--strict, --set and --check");
  }
  if (lines && line.options.weights.empty()) fail(ErrorKind::usage, "--predict needs the weights of a run: --weights FILE");
  if (whole && !line.tries()) return;
  fail(ErrorKind::usage,
       "--predict runs one graph in one process: leave out --graph, --from, --resume, --processes, --overfit and --find-rate");
}

void check_trial(const CommandLine& line, bool whole) {
  if (!line.overfit.empty() && line.find_rate) {
    fail(ErrorKind::usage, "--overfit and --find-rate are two trials: choose one");
  }
  if (!line.picture.empty() && !line.find_rate) fail(ErrorKind::usage, "--picture belongs to --find-rate");
  if (!line.tries() || whole) return;
  fail(ErrorKind::usage,
       "--overfit and --find-rate run the main graph from its first step in one process: leave out --graph, --from, --resume "
       "and --processes");
}

// `resumes`: --resume is given.
std::uint64_t batches_to_verify(const std::string& text, const CommandLine& line, bool resumes) {
  if (text.empty()) return 0;
  if (!resumes) fail(ErrorKind::usage, "--verify compares with the run that is resumed: it belongs to --resume");
  if (line.check) fail(ErrorKind::usage, "--check reads no images: leave out --verify");
  return static_cast<std::uint64_t>(integer("--verify", text, 1, 1'000'000));
}

// The options that a command which continues or explains the run must repeat: all that affect its results.
std::vector<std::string> words_again(const CommandLine& line, const Words& words, const char* program, bool explains) {
  std::vector<std::string> again = {program};
  if (line.run_option.empty()) again.push_back(line.file);
  const auto add = [&](const char* option, const std::string& value, const std::string& plain = {}) {
    if (value != plain) again.insert(again.end(), {option, value});
  };
  const auto add_flag = [&](const char* option, bool set) {
    if (set) again.emplace_back(option);
  };
  for (const std::string& each : line.overrides) add("--set", each);
  add("--epochs", line.shorts.epochs);
  add("--batch", line.shorts.batch);
  add("--lr", line.shorts.rate);
  add("--name", line.shorts.name);
  add("--devices", line.options.devices);
  add("--graph", line.options.graph);
  for (const std::string& each : line.options.resume.allow_change) add("--allow-change", each);
  if (explains) {  // without a checkpoint it begins where the run began
    add("--weights", line.options.weights);
    add("--from", words.from);
    return again;
  }
  add("--processes", words.processes, "1");
  add("--rank", line.ranks.options.rank);
  add("--ranks", line.ranks.options.ranks);
  add("--master", line.ranks.options.master);
  add("--rendezvous", line.ranks.rendezvous);
  add("--job-key", line.ranks.key_file);
  add("--interface", line.ranks.interface);
  add("--wait", line.ranks.wait, "600");
  add("--patience", line.ranks.patience, "10");
  add("--hash", words.hash, "stream");
  add("--rescue", line.options.folders.rescue);
  add_flag("--guard", line.options.guard);
  add_flag("--compare-data", line.options.compare_data);
  add("--page", line.page);
  add_flag("--top", line.top);
  add_flag("--json", line.json);
  add_flag("--quiet", line.quiet);
  return again;
}

}  // namespace

std::string ShortOptions::first() const {
  if (!epochs.empty()) return "--epochs";
  if (!batch.empty()) return "--batch";
  if (!rate.empty()) return "--lr";
  return name.empty() ? "" : "--name";
}

std::optional<CommandLine> read_command_line(int argc, char** argv) {
  CommandLine line;
  Words words;
  std::vector<std::string> files;
  Arguments arguments("pipeline-run",
                      "FILE [options] | --predict IMAGES --weights W [options] | --watch FOLDER --weights W [options]",
                      "Runs the pipeline that a TOML file describes.");
  add_run_options(arguments, line, words);
  add_rank_options(arguments, line.ranks);
  add_fault_options(arguments, line, words);
  add_trial_options(arguments, line, words);
  arguments.exclude({"--watch"},
                    {"--predict", "--labels", "--strict", "--check", "--set", "--epochs", "--batch", "--lr", "--name", "--graph",
                     "--processes", "--from", "--resume", "--explain-nan", "--overfit", "--find-rate", "--trace"});
  arguments.exclude({"--explain-nan"}, {"--check", "--overfit", "--find-rate", "--predict"});
  if (!arguments.read(argc, argv, files)) return std::nullopt;

  if (words.resume) line.options.resume.run = take_folder(files);
  drop_named_twice(files, line.options.resume.run.value_or(""));
  drop_named_twice(files, line.options.weights);
  line.processes = static_cast<int>(integer("--processes", words.processes, 1, 64));
  const bool whole = line.options.graph.empty() && words.from.empty() && !words.resume && line.processes == 1;
  if (!words.predict.empty()) line.predict.push_back(words.predict);
  if (!line.watch.empty()) {
    check_watch(line, files);
  } else if (!line.predict.empty() || !line.out.empty() || !line.labels.empty() || line.strict) {
    check_prediction(line, files, whole);
    line.predict.insert(line.predict.end(), files.begin(), files.end());
  } else if (files.size() == 1) {
    line.file = files.front();
    if (const std::string advice = advice_for_folder(line.file); !advice.empty()) fail(ErrorKind::usage, "{}", advice);
  } else if (!files.empty() || !take_file_of_run(line)) {
    refuse_files(files, line, words.resume);
  }
  check_trial(line, whole);
  line.verify = batches_to_verify(words.verify, line, words.resume);
  if (words.hash != "stream" && words.hash != "pixels") {
    fail(ErrorKind::usage, "--hash: expected stream or pixels, found '{}'", words.hash);
  }
  if (!words.trace.empty()) line.trace = trace_wish(words.trace);
  if (line.trace && line.check) fail(ErrorKind::usage, "--check runs nothing: leave out --trace");
  line.options.hash_input = words.hash == "pixels";
  line.options.only_check = line.check;
  if (!words.from.empty()) line.options.from = starting_point(words.from);
  line.options.commands.resume = shell_text(words_again(line, words, argv[0], false));
  line.options.commands.explain = shell_text(words_again(line, words, argv[0], true));
  line.draws = line.top && isatty(STDERR_FILENO) == 1;
  return line;
}

}  // namespace millrace
