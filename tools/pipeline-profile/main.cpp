// pipeline-profile: runs the first steps of a pipeline and says which stage bounds it.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "common/arguments.h"
#include "common/last_words.h"
#include "config/plan.h"
#include "experiments.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "run/profile.h"
#include "run/run.h"

int main(int argc, char** argv) {
  return millrace::run_tool("pipeline-profile", [&] {
    millrace::RunOptions options;
    std::string steps = "20", layers = "0";
    std::vector<std::string> overrides;
    std::vector<std::string> files;
    millrace::Arguments arguments(
        "pipeline-profile", "FILE [options]",
        "Runs the first steps of a pipeline's first graph (or of --graph), writes nothing, and prints for\n"
        "each stage how fast it is alone and here, how busy, and what waits in front of it.");
    arguments.option("--steps", "N", "how many steps to run (20)", steps)
        .repeated("--set", "KEY=VALUE", "change a key of the file", overrides)
        .option("--devices", "D", "instead of run.devices", options.devices)
        .option("--graph", "NAME", "profile this graph", options.graph)
        .option("--layers", "N", "also time the network's layers on the first device, and print the N slowest", layers);
    millrace::Experiments experiments;
    experiments.declare(arguments);
    if (!arguments.read(argc, argv, files)) return 0;
    if (files.size() != 1) {
      millrace::fail(millrace::ErrorKind::usage, "one pipeline file is needed, found {}; see pipeline-profile --help",
                     files.size());
    }
    const auto number = [](const char* option, const std::string& text, std::uint64_t least) {
      char* end = nullptr;
      const std::uint64_t value = std::strtoull(text.c_str(), &end, 10);
      if (value < least || *end != '\0') {
        millrace::fail(millrace::ErrorKind::usage, "{} must be a number of at least {}, found '{}'", option, least, text);
      }
      return value;
    };
    options.most_steps = number("--steps", steps, 1);
    const std::uint64_t most_layers = number("--layers", layers, 0);
    options.time_layers = most_layers > 0;
    options.only_main = true;
    overrides.emplace_back("observe.console.quiet=true");

    const millrace::LastWords last_words("pipeline-profile");
    millrace::Registry registry;
    millrace::load_plugins(registry);
    if (experiments.is_asked()) {
      experiments.run({files.front(), overrides, options.devices, options.graph}, registry, options.most_steps);
      return 0;
    }
    const millrace::Pipeline pipeline = millrace::load_pipeline(files.front(), overrides, registry);
    millrace::Profile profile;
    options.hooks.on_tick = [&](const millrace::Graph::Figures& figures) { profile.add(figures); };
    const auto prepared = millrace::prepare(pipeline, registry, options);
    prepared->open_graphs();
    const auto start = std::chrono::steady_clock::now();
    millrace::Run(*prepared).go();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{}", profile.text(seconds, prepared->data_threads(), static_cast<int>(pipeline.run.io_threads)));
    if (most_layers == 0) return 0;
    const millrace::Replicas& replicas = prepared->replicas.here();
    const auto times = replicas.empty() ? std::vector<millrace::LayerTime>() : replicas[0]->layer_times();
    if (times.empty()) millrace::fail(millrace::ErrorKind::usage, "--layers: this graph has no network whose layers are timed");
    fmt::print("\n{}", millrace::layer_table(times, most_layers));
    return 0;
  });
}
