// pipeline-profile: runs the first steps of a pipeline and says which stage bounds it.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "common/arguments.h"
#include "config/plan.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "run/profile.h"
#include "run/session.h"

int main(int argc, char** argv) {
  return millrace::run_tool("pipeline-profile", [&] {
    millrace::SessionOptions options;
    std::string steps = "20";
    std::vector<std::string> overrides;
    std::vector<std::string> files;
    millrace::Arguments arguments("pipeline-profile", "FILE [options]",
                                  "Runs the first steps of a pipeline's first graph (or of --graph), writes nothing, and prints for\n"
                                  "each stage how fast it is alone and here, how busy, and what waits in front of it.");
    arguments.option("--steps", "N", "how many steps to run (20)", steps)
        .repeated("--set", "KEY=VALUE", "change a key of the file", overrides)
        .option("--devices", "D", "instead of run.devices", options.devices)
        .option("--graph", "NAME", "profile this graph", options.graph);
    if (!arguments.read(argc, argv, files)) return 0;
    if (files.size() != 1) {
      millrace::fail(millrace::ErrorKind::usage, "one pipeline file is needed, found {}; see pipeline-profile --help", files.size());
    }
    char* end = nullptr;
    options.most_steps = std::strtoull(steps.c_str(), &end, 10);
    if (options.most_steps == 0 || *end != '\0') {
      millrace::fail(millrace::ErrorKind::usage, "--steps must be a number above 0, found '{}'", steps);
    }
    options.only_main = true;
    overrides.emplace_back("observe.console.quiet=true");

    millrace::Registry registry;
    registry.load_all();
    const millrace::Pipeline pipeline = millrace::load_pipeline(files.front(), overrides, registry);
    millrace::Profile profile;
    options.on_tick = [&](const millrace::Graph::Figures& figures) { profile.add(figures); };
    millrace::Session session(pipeline, registry, options);
    session.prepare();
    const auto start = std::chrono::steady_clock::now();
    session.run();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{}", profile.text(seconds, session.data_threads(), static_cast<int>(pipeline.run.io_threads)));
    return 0;
  });
}
