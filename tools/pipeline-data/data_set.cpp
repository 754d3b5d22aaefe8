#include "data_set.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "millrace/error.h"

namespace millrace {

void DataSetOptions::declare(Arguments& arguments) {
  arguments.option("--graph", "NAME", "whose source is meant, such as validate (the file's first graph)", graph)
      .repeated("--set", "KEY=VALUE", "change a key of the file: --set data.root=/data/cifar10", overrides)
      .option("--threads", "N", "that read and decode (one for each processor)", threads);
}

unsigned DataSetOptions::thread_count() const {
  if (threads.empty()) return std::max(1U, std::thread::hardware_concurrency());
  return static_cast<unsigned>(integer("--threads", threads, 1, 1024));
}

namespace {

const GraphPlan& graph_of(const Pipeline& pipeline, const std::string& name) {
  if (name.empty()) return pipeline.graphs.front();
  if (const GraphPlan* graph = pipeline.graph(name)) return *graph;
  std::vector<std::string> names;
  for (const GraphPlan& graph : pipeline.graphs) names.push_back(graph.name);
  fail(ErrorKind::usage, "--graph: {} has no graph '{}'; there {} {}", pipeline.file, name, names.size() == 1 ? "is" : "are",
       fmt::join(names, ", "));
}

}  // namespace

DataSet::DataSet(const DataSetOptions& options) {
  registry_.load_all();
  pipeline_ = load_pipeline(options.file, options.overrides, registry_);
  StageContext context;
  context.seed = static_cast<std::uint64_t>(pipeline_.run.seed);
  context.network = pipeline_.network.get();
  if (pipeline_.network) context.window = pipeline_.network->input;
  context.registry = &registry_;
  build_ = std::make_unique<GraphBuild>(graph_of(pipeline_, options.graph), context);
  line_ = std::make_unique<DataLine>(*build_, context.seed);
}

std::string DataSet::class_name(std::int32_t label) const {
  const std::vector<std::string> classes = line_->order().classes();
  if (label >= 0 && static_cast<std::size_t>(label) < classes.size()) return classes[static_cast<std::size_t>(label)];
  return label < 0 ? "no label" : fmt::format("label {}", label);
}

namespace {

std::int64_t milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Counter::Counter(std::string what, std::uint64_t of) : what_(std::move(what)), of_(of), terminal_(isatty(STDERR_FILENO) != 0) {}

Counter::~Counter() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

void Counter::add() {
  const std::uint64_t done = ++done_;
  if (!terminal_) return;
  constexpr std::int64_t kPause = 100;
  std::int64_t last = shown_, now = milliseconds();
  if (now - last < kPause || !shown_.compare_exchange_strong(last, now)) return;
  fmt::print(stderr, "\r\033[K{} {} of {}", what_, done, of_);
}

}  // namespace millrace
