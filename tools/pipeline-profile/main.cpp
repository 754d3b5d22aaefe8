// pipeline-profile: runs the first steps of a pipeline and reports its bottleneck, and possible improvements.
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "common/arguments.h"
#include "common/join_ranks.h"
#include "common/last_words.h"
#include "config/plan.h"
#include "experiments.h"
#include "layers.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/host_cores.h"
#include "millrace/util/standard_error.h"
#include "millrace/util/text.h"
#include "peaks.h"
#include "pictures.h"
#include "rank_group.h"
#include "report.h"
#include "run/runner.h"

namespace millrace {
namespace {

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
    TelemetryEvent told = event;
    if (only_data_) told.devices.clear();  // they are not involved
    builder.add(told, static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
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
  constexpr std::int64_t kMost = 1'000'000'000;
  line.options.most_steps = static_cast<std::uint64_t>(integer("--steps", line.steps, 1, kMost));
  const auto most_layers = static_cast<std::uint64_t>(integer("--layers", line.layers, 0, kMost));
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
