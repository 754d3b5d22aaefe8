// The host's remaining work for a cached image, which is all of its work if devices keep the images: read_folder -> decode_image
// -> cache -> augment (alternating flip, shifts) -> batch. The first epoch decodes.
//
//   ninja -C build cache_bench && build/bin/cache_bench FOLDER [threads [epochs [batch]]]
//
// FOLDER holds class folders of images of 32 x 32. Quote the processor time: it is steadier on a machine that is not idle.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>

#include "common/arguments.h"
#include "graph/graph.h"
#include "millrace/error.h"
#include "millrace/util/load_plugins.h"
#include "prepare/graph_build.h"

namespace {

using namespace millrace;

double read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Value list(std::initializer_list<Value> items) { return Value(Array(items)); }

GraphPlan make_plan(const Registry& registry, const std::string& folder, std::int64_t batch_size) {
  GraphPlan plan;
  plan.name = "bench";
  const auto add = [&](const std::string& name, std::initializer_list<std::pair<const char*, Value>> members) {
    const StageType* type = registry.stages().find(name);
    if (type == nullptr) fail(ErrorKind::usage, "the plugin '{}' is not built", name);
    Value table;
    for (const auto& [key, value] : members) table.set(key, value);
    const auto at = static_cast<int>(plan.stages.size());
    if (at > 0) plan.edges.push_back({at - 1, 0, at, 0});
    plan.stages.push_back({name, type, table, {}, {}});
  };
  Value shifts;
  shifts.set("x", list({Value(-2), Value(2)}));
  shifts.set("y", list({Value(-2), Value(2)}));
  add("read_folder", {{"path", Value(folder)}, {"shuffle", Value("every-epoch")}});
  add("decode_image", {{"size", list({Value(32), Value(32)})}});
  add("cache", {{"memory", Value("4 GiB")}, {"device", Value(true)}});
  add("augment", {{"alternating_flip", Value(true)}, {"translate", shifts}, {"border", Value("reflect")}});
  add("batch", {{"size", Value(batch_size)}});
  return plan;
}

int run(int count, char** arguments) {
  if (count < 2) fail(ErrorKind::usage, "usage: cache_bench FOLDER [threads [epochs [batch]]]");
  const int threads = count > 2 ? std::max(1, std::atoi(arguments[2])) : 1;
  const int epochs = count > 3 ? std::max(1, std::atoi(arguments[3])) : 6;
  const std::int64_t batch = count > 4 ? std::max(1, std::atoi(arguments[4])) : 1024;
  Registry registry;
  load_all_plugins(registry);
  const GraphPlan plan = make_plan(registry, arguments[1], batch);
  Workers workers(threads, threads);
  DataContext context;
  context.registry = &registry;
  GraphBuild build(plan, context);
  require_steps(build);
  const GraphData& data = build.data();
  GraphOptions options;
  options.samples_per_epoch = data.samples_per_epoch;
  options.steps_per_epoch = data.steps_per_epoch();
  options.image = options.window = data.image;
  options.resident_set = 0;
  build.open_stages();
  Graph graph(plan, build.stages(), options, workers);
  const auto images = static_cast<double>(data.steps_per_epoch()) * static_cast<double>(batch);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const double start = read_clock(CLOCK_MONOTONIC), busy = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    const std::uint64_t first = static_cast<std::uint64_t>(epoch) * data.steps_per_epoch();
    graph.start(first, first + data.steps_per_epoch());
    graph.wait();
    fmt::print("epoch {}: {:8.0f} images/s, {:6.2f} us of processor time an image\n", epoch + 1,
               images / (read_clock(CLOCK_MONOTONIC) - start), 1e6 * (read_clock(CLOCK_PROCESS_CPUTIME_ID) - busy) / images);
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  return millrace::run_tool("cache_bench", [&] { return run(count, arguments); });
}
