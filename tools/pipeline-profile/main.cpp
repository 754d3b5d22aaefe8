// pipeline-profile: runs the first steps of a pipeline and says what it waits for, and what would make it faster.
#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "common/arguments.h"
#include "common/last_words.h"
#include "config/plan.h"
#include "experiments.h"
#include "layers.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/text.h"
#include "peaks.h"
#include "prepare/devices.h"
#include "report.h"
#include "run/run.h"

namespace millrace {
namespace {

struct CommandLine {
  RunOptions options;
  std::vector<std::string> overrides, files;
  std::string steps = "20", layers = "0";
  bool compares = false, json = false;
  Experiments experiments;

  void declare(Arguments& arguments) {
    arguments.option("--steps", "N", "how many steps to run (20)", steps)
        .repeated("--set", "KEY=VALUE", "change a key of the file", overrides)
        .option("--devices", "D", "instead of run.devices", options.devices)
        .option("--graph", "NAME", "profile this graph", options.graph)
        .flag("--data", "the data stages alone: steps are left out", options.only_data)
        .flag("--device", "the steps alone: the first batches are used again and again, as they are", options.only_steps)
        .flag("--json", "print everything as JSON", json)
        .flag("--compare", "of two files, or reports that --json printed: what differs", compares)
        .option("--layers", "N", "also time the network's layers on the first device, and print the N slowest", layers);
    experiments.declare(arguments);
    const std::vector<std::string> others = {"--what-if", "--suggest", "--forecast", "--scaling", "--autotune"};
    arguments.exclude(others, {"--compare", "--json", "--layers", "--data", "--device"})
        .exclude({"--layers"}, {"--compare", "--json"})
        .exclude({"--compare"}, {"--json"})
        .exclude({"--data"}, {"--device"});
  }
};

class Watch final : public RunObserver {
 public:
  void telemetry(const TelemetryEvent& event) override { looks.add(event, static_cast<double>(std::clock()) / CLOCKS_PER_SEC); }
  Looks looks;
};

Profile profile_of(const std::string& file, const CommandLine& line, const Registry& registry, std::uint64_t most_layers,
                   std::string& layers) {
  std::vector<std::string> overrides = line.overrides;
  overrides.emplace_back("observe.console.quiet=true");
  const Pipeline pipeline = load_pipeline(file, overrides, registry);
  RunOptions options = line.options;
  const auto watch = std::make_shared<Watch>();
  options.hooks.observer = watch;
  const auto prepared = prepare(pipeline, registry, options);
  prepared->open_graphs();
  Run(*prepared).go();
  Profile profile = watch->looks.profile(static_cast<int>(available_cores().size()));
  profile.file = file;
  if (most_layers == 0) return profile;
  const Replicas& replicas = prepared->replicas.here();
  const auto times = replicas.empty() ? std::vector<LayerTime>() : replicas[0]->layer_times();
  if (times.empty()) fail(ErrorKind::usage, "--layers: this graph has no network whose layers are timed");
  const Precision precision = prepared->replicas.precision();
  const Peaks peaks = measure_peaks(*prepared->replicas.devices().devices.front(), precision, registry);
  const double samples = static_cast<double>(prepared->main().batch().size) / static_cast<double>(prepared->replicas.all());
  layers = fmt::format("\nthe first device reaches {:.3g} GFLOP/s multiplying matrices in {}, and {:.3g} GB/s of memory\n",
                       peaks.operations / 1e9, to_string(precision), peaks.bytes / 1e9) +
           layer_table(rows_of(times, *pipeline.network, samples, precision == Precision::bf16 ? 2 : 4, peaks), most_layers);
  return profile;
}

// A report of --json, or a pipeline that is run.
Profile profile_or_report(const std::string& file, const CommandLine& line, const Registry& registry) {
  if (file.ends_with(".json")) {
    std::ifstream in(file, std::ios::binary);
    if (!in) fail(ErrorKind::data, "'{}' cannot be read", file);
    return profile_from_json(std::string(std::istreambuf_iterator<char>(in), {}), file);
  }
  std::string none;
  return profile_of(file, line, registry, 0, none);
}

int run(int argc, char** argv) {
  CommandLine line;
  Arguments arguments("pipeline-profile", "FILE [options]",
                      "Runs the first steps of a pipeline's first graph (or of --graph), writes nothing, and says what it\n"
                      "waits for, what would make it faster, and what its stages and devices do.");
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

  const LastWords last_words("pipeline-profile");
  Registry registry;
  load_plugins(registry);
  if (line.experiments.is_asked()) {
    line.experiments.run({line.files.front(), line.overrides, line.options.devices, line.options.graph}, registry,
                         line.options.most_steps);
    return 0;
  }
  if (line.compares) {
    const Profile before = profile_or_report(line.files[0], line, registry);
    fmt::print("{}", terminal_text(comparison(before, profile_or_report(line.files[1], line, registry))));
    return 0;
  }
  std::string layers;
  const Profile profile = profile_of(line.files.front(), line, registry, most_layers, layers);
  fmt::print("{}", line.json ? to_json(profile) : terminal_text(report(profile) + layers));
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::run_tool("pipeline-profile", [&] { return millrace::run(argc, argv); });
}
