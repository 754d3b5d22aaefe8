// pipeline-profile: runs the first steps of a pipeline and reports its bottleneck, and possible improvements.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotune.h"
#include "calibration_run.h"
#include "common/arguments.h"
#include "common/join_ranks.h"
#include "common/last_words.h"
#include "config/plan.h"
#include "forecast.h"
#include "layers.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/host_cores.h"
#include "millrace/util/output_file.h"
#include "millrace/util/standard_error.h"
#include "millrace/util/text.h"
#include "peaks.h"
#include "pictures.h"
#include "rank_group.h"
#include "report.h"
#include "run/prepare.h"
#include "run/runner.h"
#include "scaling.h"
#include "values.h"
#include "what_if.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

// The options that predict or try: --what-if, --suggest, --forecast, --scaling, --autotune.
class Experiments {
 public:
  void declare(Arguments& arguments);  // the options; outlives `arguments`
  bool is_asked() const;
  bool scales() const { return !scaling_.empty(); }
  // Measures `what` and prints the requested results. `steps`: minimum number. `pictures`: prefix of their files' names; "" for
  // none. Throws Error. REQUIRES: one thread if it scales().
  void run(const ProfiledFile& what, const Registry& registry, std::uint64_t steps, const std::string& pictures,
           Leave leave) const;

 private:
  void answer(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options) const;
  void foretell(const ProfiledFile& what, const Registry& registry, CalibrationOptions options) const;
  void scale(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options, const std::string& pictures,
             Leave leave) const;
  void tune(const ProfiledFile& what, const Registry& registry) const;

  std::vector<std::string> questions_;
  bool suggests_ = false, tunes_ = false;
  std::string forecast_, csv_, out_, seconds_;
  std::string scaling_, over_, network_, to_accuracy_;
};

constexpr double kTuningSeconds = 60;

// An option's output file, opened before a minute of work. "": none.
class AskedFile {
 public:
  AskedFile(const char* option, const std::string& path) {
    if (path.empty()) return;
    try {
      file_.emplace(path);
    } catch (Error& error) {
      throw error.in(option);
    }
  }
  void write(const std::string& text) {
    if (!file_) return;
    file_->write(text);
    file_->commit();
  }

 private:
  std::optional<OutputFile> file_;
};

// The file's name relative to the folder of `out`; names of base files are unchanged.
std::string as_extended(const std::string& file, const fs::path& out) {
  if (!fs::exists(file)) return file;
  return fs::relative(file, fs::absolute(out).parent_path()).string();
}

double positive(const char* option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(value > 0) || value > 3600) {
    fail(ErrorKind::usage, "{} must be a number of seconds above 0 and at most 3600, found '{}'", option, text);
  }
  return value;
}

double share(const char* option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(value > 0) || value > 1) {
    fail(ErrorKind::usage, "{} must be a share above 0 and at most 1, found '{}'", option, text);
  }
  return value;
}

// "1Gb/s,latency=50us". Default: ranks of one machine that communicate through sockets.
NetworkModel network_of(const std::string& text) {
  NetworkModel network{.bandwidth = 1e9, .latency = 50e-6, .exchanges_slices = true};
  for (const std::string_view part : split_list(text)) {
    const bool is_bandwidth = part.find('=') == std::string_view::npos;
    const auto [key, value] =
        is_bandwidth ? std::pair(std::string("network"), std::string(part)) : split_setting("--network", part);
    if (!set_network(network, "--network", key, value))
      fail(ErrorKind::usage, "--network: unknown key '{}'; expected latency", key);
  }
  return network;
}

// The file with half of its batch; empty if that leaves a replica without images.
std::optional<ProfiledFile> half_of(const ProfiledFile& what, const RunFacts& facts) {
  if (facts.batch < 2 * static_cast<std::uint32_t>(std::max(facts.devices.replicas, 1))) return std::nullopt;
  ProfiledFile half = what;
  half.overrides.push_back(fmt::format("{}.{}.size={}", facts.graph, facts.stages.back().name, facts.batch / 2));
  return half;
}

void Experiments::declare(Arguments& arguments) {
  arguments
      .repeated("--what-if", "CHANGES", "predict the rate with other settings, such as threads=4,device=2x,decode=1.5x,image=256",
                questions_)
      .flag("--suggest", "predict helpful changes, best first", suggests_)
      .option("--forecast", "SIZE", "predict training on many devices: devices=8,hosts=32,network=100Gb/s", forecast_)
      .option("--scaling", "N,N...", "run on this many devices, with the same and a larger batch", scaling_)
      .option("--over", "WHAT", "with --scaling: ranks, a process per device, or devices (devices)", over_)
      .option("--network", "NETWORK", "with --over ranks: network to predict for: 1Gb/s,latency=50us", network_)
      .option("--to-accuracy", "SHARE", "with --scaling: also train to this validation accuracy, such as 0.9", to_accuracy_)
      .flag("--autotune", "choose threads, chunks and buffers by a minute of short runs", tunes_)
      .option("--out", "FILE.toml", "with --autotune: write the choice as a file that extends FILE", out_)
      .option("--csv", "FILE", "with --forecast or --scaling: also write the table as CSV", csv_)
      .option("--seconds", "S", "with these options: minimum time per run (5); total time of --autotune (60)", seconds_);
}

bool Experiments::is_asked() const {
  const bool asked = !questions_.empty() || suggests_ || !forecast_.empty() || !scaling_.empty() || tunes_;
  if (!out_.empty() && !tunes_) fail(ErrorKind::usage, "--out belongs to --autotune");
  if (!csv_.empty() && forecast_.empty() && scaling_.empty()) fail(ErrorKind::usage, "--csv belongs to --forecast or --scaling");
  for (const auto& [name, value] : {std::pair("--over", &over_), {"--network", &network_}, {"--to-accuracy", &to_accuracy_}}) {
    if (!value->empty() && scaling_.empty()) fail(ErrorKind::usage, "{} belongs to --scaling", name);
  }
  if (!seconds_.empty() && !asked) fail(ErrorKind::usage, "--seconds belongs to --what-if and the other predictions");
  return asked;
}

void Experiments::run(const ProfiledFile& what, const Registry& registry, std::uint64_t steps, const std::string& pictures,
                      Leave leave) const {
  CalibrationOptions options{.steps = steps};
  if (!seconds_.empty()) options.seconds = positive("--seconds", seconds_);
  options.most_seconds = std::max(options.most_seconds, options.seconds);
  if (!questions_.empty() || suggests_) answer(what, registry, options);
  if (!forecast_.empty()) foretell(what, registry, options);
  if (!scaling_.empty()) scale(what, registry, options, pictures, leave);
  if (tunes_) tune(what, registry);
}

void Experiments::answer(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options) const {
  const RunFacts facts = facts_of(what, registry);
  std::vector<StepShare> shares;  // the requested ones
  bool divides = false;
  for (const std::string& text : questions_) {  // before the work: they may be wrong
    const Question question = parse_question(text, facts);
    if (question.changes.empty()) fail(ErrorKind::usage, "--what-if: name a change, such as threads=4");
    divides = divides || divides_steps(question);
    if (const auto share = asked_share(question, facts)) shares.push_back(*share);
  }
  Calibration measured = calibrate(what, registry, options);
  DeviceFacts& devices = measured.facts.devices;
  devices.alone = calibrate_steps(what, registry, options, facts, shares);
  const auto half = half_of(what, facts);
  const bool all_are_known = devices.threads > 0 && std::ranges::all_of(shares, [&](const StepShare& share) {
                               return std::ranges::find(devices.alone, share, &StepsAlone::share) != devices.alone.end();
                             });
  if (divides && half && !all_are_known) devices.fixed_share = fixed_share_of(measured, calibrate(*half, registry, options));
  fmt::print("{}", what_if_text(measured, questions_, suggests_));
}

void Experiments::foretell(const ProfiledFile& what, const Registry& registry, CalibrationOptions options) const {
  const ForecastQuestion question = parse_forecast(forecast_);
  AskedFile csv("--csv", csv_);
  options.layers = true;
  const Calibration whole = calibrate(what, registry, options);
  std::optional<Calibration> smaller;
  if (const auto half = half_of(what, whole.facts)) smaller = calibrate(*half, registry, options);
  const ForecastStep step = forecast_step(whole, smaller ? &*smaller : nullptr);
  fmt::print("{}", forecast_text(step, question));
  csv.write(forecast_csv(step, question));
}

void Experiments::scale(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options,
                        const std::string& pictures, Leave leave) const {
  ScalingQuestion question{.replicas = parse_replicas(scaling_), .network = network_of(network_), .leave = leave};
  if (!over_.empty() && over_ != "ranks" && over_ != "devices") {
    fail(ErrorKind::usage, "--over = '{}': choose ranks or devices", over_);
  }
  question.over_ranks = over_ == "ranks";
  if (!network_.empty() && !question.over_ranks) fail(ErrorKind::usage, "--network belongs to --over ranks");
  if (!to_accuracy_.empty()) question.to_accuracy = share("--to-accuracy", to_accuracy_);
  AskedFile csv("--csv", csv_);
  const Scaling scaling = measure_scaling(what, registry, options, question);
  fmt::print("{}", scaling_text(scaling));
  csv.write(scaling_csv(scaling.points));
  const bool learned = !scaling.accuracies.empty();
  if (learned && !csv_.empty()) {
    const fs::path path(csv_);
    const fs::path accuracy_path =
        path.parent_path() / fmt::format("{}-accuracy{}", path.stem().string(), path.extension().string());
    AskedFile("--csv", accuracy_path.string()).write(accuracy_csv(scaling.accuracies));
  }
  if (pictures.empty()) return;
  const std::string title = fmt::format("{} on {} {}", fs::path(what.file).stem().string(), question.replicas.back(),
                                        question.over_ranks ? "ranks" : "replicas");
  write_picture(throughput_picture(scaling, title), pictures, "throughput");
  write_picture(step_picture(scaling, title), pictures, "step");
  if (learned) write_picture(accuracy_picture(scaling, title), pictures, "accuracy");
}

void Experiments::tune(const ProfiledFile& what, const Registry& registry) const {
  if (!out_.empty() && fs::path(out_).extension() != ".toml") {
    fail(ErrorKind::usage, "--out: '{}' does not end in .toml", out_);
  }
  if (!out_.empty() && fs::exists(out_)) fail(ErrorKind::usage, "--out: '{}' already exists: name another file", out_);
  AskedFile file("--out", out_);
  const Tuned tuned = autotune(what, registry, seconds_.empty() ? kTuningSeconds : positive("--seconds", seconds_));
  fmt::print("{}", autotune_text(tuned));
  if (out_.empty()) return;
  if (!tuned.has_compared())
    fail(ErrorKind::run, "--out: '{}' is not written, since nothing was tried: give more --seconds", out_);
  file.write(autotune_toml(tuned, as_extended(what.file, out_), what.overrides));
  fmt::print("written: {}\n", out_);
}

struct CommandLine {
  RunOptions options;
  std::vector<std::string> overrides, files;
  std::string steps = "20", layers = "0";
  std::string processes = "1", pictures;
  RankWishes ranks;
  bool compares = false, json = false;
  Experiments experiments;

  void declare(Arguments& arguments) {
    arguments.option("--steps", "N", "number of steps (20)", steps)
        .repeated("--set", "KEY=VALUE", "set a key of the file", overrides)
        .option("--devices", "D", "instead of run.devices", options.devices)
        .option("--graph", "NAME", "profile this graph", options.graph)
        .flag("--data", "only data stages, without steps", options.only_data)
        .flag("--device", "only steps: reuse the first batches unchanged", options.only_steps)
        .flag("--json", "print everything as JSON", json)
        .flag("--compare", "print differences between two files, or two --json reports", compares)
        .option("--layers", "N", "also time the network's layers on the first device, and print the N slowest", layers)
        .option("--pictures", "PREFIX", "with --layers or --scaling: draw PREFIX-roofline.png and others, each also as .svg",
                pictures)
        .option("--processes", "N", "share the devices among N processes of this machine, as in pipeline-run (1)", processes);
    add_rank_options(arguments, ranks);
    experiments.declare(arguments);
    const std::vector<std::string> others = {"--what-if", "--suggest", "--forecast", "--scaling", "--autotune"};
    arguments.exclude(others, {"--compare", "--json", "--layers", "--data", "--device"})
        .exclude({"--layers"}, {"--compare", "--json"})
        .exclude({"--compare"}, {"--json"})
        .exclude({"--data"}, {"--device", "--layers"});
  }
};

class Watch final : public RunObserver {
 public:
  explicit Watch(bool only_data) : only_data_(only_data) {}

  void telemetry(const TelemetryEvent& event) override {
    TelemetryEvent known = event;
    if (only_data_) known.devices.clear();  // they are not involved
    builder.add(known, static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
  }
  ProfileBuilder builder;

 private:
  const bool only_data_;
};

// A table of the layers, and their picture if requested. REQUIRES: it ran with time_layers.
std::string layers_of(const PreparedRun& prepared, const CommandLine& line, const Registry& registry, std::uint64_t most) {
  const Replicas& replicas = prepared.replicas.here();
  const auto times = replicas.empty() ? std::vector<LayerTime>() : replicas[0]->layer_times();
  if (times.empty()) fail(ErrorKind::usage, "--layers: this graph has no network whose layers are timed");
  const Precision precision = prepared.replicas.precision();
  const Peaks peaks = measure_peaks(*prepared.replicas.devices().devices.front(), precision, registry);
  const double samples = static_cast<double>(prepared.main().data().batch.size) / static_cast<double>(prepared.replicas.all());
  const std::vector<LayerRow> rows =
      rows_of(times, *prepared.pipeline.network, samples, precision == Precision::bf16 ? 2 : 4, peaks);
  if (!line.pictures.empty()) {
    const std::string title = fmt::format("{} on {}, {}", std::filesystem::path(line.files.front()).stem().string(),
                                          prepared.replicas.devices().devices.front()->info().backend, to_string(precision));
    write_picture(roofline_picture(rows, peaks, title), line.pictures, "roofline");
  }
  return fmt::format("\nthe first device reaches {:.3g} GFLOP/s multiplying matrices in {}, and {:.3g} GB/s of memory\n",
                     peaks.operations / 1e9, to_string(precision), peaks.bytes / 1e9) +
         layer_table(rows, most);
}

// `layers` receives the text of layers_of() if requested. Ranks other than 0 have nothing to report.
Profile profile_of(const std::string& file, const CommandLine& line, const Registry& registry, std::uint64_t most_layers,
                   std::string& layers) {
  std::vector<std::string> overrides = line.overrides;
  overrides.emplace_back("observe.console.quiet=true");
  const Pipeline pipeline = load_pipeline(file, overrides, registry);
  RunOptions options = line.options;
  const auto watch = std::make_shared<Watch>(options.only_data);
  options.hooks.observer = watch;
  const auto prepared = prepare(pipeline, registry, options);
  prepared->open_graphs();
  run_once(*prepared);
  if (!options.is_first()) return {};
  Profile profile = watch->builder.build(static_cast<int>(available_cores().size()), part_of_batch(*prepared));
  profile.file = file;
  if (most_layers > 0) layers = layers_of(*prepared, line, registry, most_layers);
  return profile;
}

// A report of --json, or a pipeline to run.
Profile profile_or_report(const std::string& file, const CommandLine& line, const Registry& registry) {
  if (file.ends_with(".json")) {
    std::ifstream in(file, std::ios::binary);
    if (!in) fail(ErrorKind::data, "'{}' cannot be read", file);
    return profile_from_json(std::string(std::istreambuf_iterator<char>(in), {}), file);
  }
  std::string none;
  return profile_of(file, line, registry, 0, none);
}

// On all ranks; rank 0 prints.
int profile_together(CommandLine& line, const RankPlace& place, const Registry& registry, std::uint64_t most_layers) {
  std::optional<RankGroup> ranks;
  if (place.ranks > 1) ranks.emplace(place, line.ranks);
  if (place.ranks == 1) ranks.emplace(static_cast<int>(integer("--processes", line.processes, 1, 1024)));
  line.options.group = ranks->group();
  try {
    std::string layers;
    const Profile profile = profile_of(line.files.front(), line, registry, most_layers, layers);
    if (!ranks->is_first()) return 0;
    fmt::print("{}", line.json ? to_json(profile) : terminal_text(report(profile) + layers));
    return 0;
  } catch (const Error& error) {
    if (ranks->group() != nullptr) ranks->group()->leave(&error);
    if (ranks->is_first()) throw;
    return exit_code(error.kind());  // rank 0 receives and reports it
  }
}

// The program's own exit, in addition to the end of main().
void leave(int code) {
  LastWords::none();
  _exit(code);
}

// For work of a single process, which starts others itself if needed.
void require_one_process(const CommandLine& line, const RankPlace& place) {
  const bool is_one = place.ranks == 1 && line.processes == "1";
  const char* const what = line.experiments.is_asked() ? "predictions and --scaling" : line.compares ? "--compare" : nullptr;
  if (what != nullptr && !is_one) {
    fail(ErrorKind::usage, "{} are made by one process: leave out --processes, and start one task", what);
  }
}

int run(int argc, char** argv) {
  CommandLine line;
  line.options.hooks.notice = [](const std::string& text) { print_to_stderr("{}\n", text); };
  Arguments arguments(
      "pipeline-profile", "FILE [options]",
      "Runs the first steps of a pipeline's first graph (or of --graph), writes nothing, and reports bottlenecks,\n"
      "helpful changes, and the work of stages and devices.");
  line.declare(arguments);
  if (!arguments.read(argc, argv, line.files)) return 0;
  const std::size_t wanted = line.compares ? 2 : 1;
  if (line.files.size() != wanted) {
    fail(ErrorKind::usage, "{} needed, found {}; see pipeline-profile --help",
         line.compares ? "--compare: two files are" : "one pipeline file is", line.files.size());
  }
  constexpr std::int64_t kMax = 1'000'000'000;
  line.options.most_steps = static_cast<std::uint64_t>(integer("--steps", line.steps, 1, kMax));
  const auto most_layers = static_cast<std::uint64_t>(integer("--layers", line.layers, 0, kMax));
  line.options.time_layers = most_layers > 0;
  line.options.only_main = true;
  if (!line.pictures.empty() && most_layers == 0 && !line.experiments.scales()) {
    fail(ErrorKind::usage, "--pictures belongs to --layers or --scaling");
  }
  const RankPlace place = find_rank(line.ranks.options, current_environment());
  if (!place.notice.empty()) print_to_stderr("warning: {}\n", place.notice);
  require_one_process(line, place);

  const LastWords last_words("pipeline-profile");
  Registry registry;
  load_plugins(registry);
  if (line.experiments.is_asked()) {
    line.experiments.run({line.files.front(), line.overrides, line.options.devices, line.options.graph}, registry,
                         line.options.most_steps, line.pictures, leave);
    return 0;
  }
  if (line.compares) {
    const Profile before = profile_or_report(line.files[0], line, registry);
    fmt::print("{}", terminal_text(comparison(before, profile_or_report(line.files[1], line, registry))));
    return 0;
  }
  return profile_together(line, place, registry, most_layers);
}

}  // namespace

}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::run_tool("pipeline-profile", [&] { return millrace::run(argc, argv); });
}
