#include "data_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "millrace/error.h"
#include "millrace/storage.h"
#include "millrace/util/standard_error.h"
#include "millrace/util/text.h"
#include "plugin/silent_services.h"
#include "prepare/budget.h"
#include "util/memory_limit.h"

namespace millrace {

void DataSetOptions::declare(Arguments& arguments, const char* default_graph) {
  arguments.option("--graph", "NAME", fmt::format("graph of the source, such as validate ({})", default_graph), graph)
      .repeated("--set", "KEY=VALUE", "set a key of the file: --set data.path=/data/cifar10", overrides);
}

void DataSetOptions::declare_threads(Arguments& arguments) {
  arguments.option("--threads", "N", "reading and decoding threads (one per processor)", threads);
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

// The first stages of a graph.
GraphPlan beginning(const GraphPlan& graph, DataSet::Stages stages) {
  GraphPlan plan = graph;
  const auto end = stages == DataSet::Stages::source
                       ? plan.stages.begin() + 1
                       : std::find_if(plan.stages.begin(), plan.stages.end(),
                                      [](const StagePlan& stage) { return stage.type->role == StageType::Role::batcher; });
  plan.stages.erase(end, plan.stages.end());
  plan.edges.clear();
  return plan;
}

// Forwards warnings of stages, each once in the program's life.
class Warnings : public SilentServices {
 public:
  explicit Warnings(bool quiet) : quiet_(quiet) {}
  void warn(std::string_view message) override {
    static std::mutex mutex;
    static std::set<std::string> logged;
    if (quiet_) return;
    const std::lock_guard lock(mutex);
    if (logged.emplace(message).second) print_to_stderr("warning: {}\n", with_indented_lines(message));
  }

 private:
  const bool quiet_;
};

// Checks before decoding: each thread makes an image of the size that the file requests.
void require_memory_for_images(const GraphBuild& build, unsigned threads) {
  const ImageShape& image = build.data().image;
  const std::size_t there = host_memory_for("", 1), bytes = image.is_static() ? image.bytes() * threads : 0;
  if (there == 0 || bytes <= there) return;
  fail(ErrorKind::usage, "[{}]: images of {} take {} on {} threads, and there are {}: make them smaller, or give --threads 1",
       build.plan().name, to_string(image), bytes_text(bytes), threads, bytes_text(there));
}

}  // namespace

DataSet::DataSet(const DataSetOptions& options, Stages stages) {
  load_plugins(registry_);
  run_ = std::make_unique<Warnings>(options.quiet);
  pipeline_ = load_pipeline(options.file, options.overrides, registry_, {.made_by = "", .whole_data = options.whole});
  for (const std::string& warning : pipeline_.warnings) run_->warn(warning);
  graph_ = &graph_of(pipeline_, options.graph);
  plan_ = beginning(*graph_, stages);
  context_.seed = static_cast<std::uint64_t>(pipeline_.run.seed);
  context_.network = pipeline_.network.get();
  if (pipeline_.network) context_.window = pipeline_.network->input;
  context_.registry = &registry_;
  context_.run = run_.get();
  build_ = std::make_unique<GraphBuild>(plan_, context_);
  if (context_.window.is_static() && !build_->data().image.is_static()) {
    context_.window = {};
    build_ = std::make_unique<GraphBuild>(plan_, context_);
  }
  if (stages == Stages::images) require_memory_for_images(*build_, options.thread_count());
  line_ = std::make_unique<DataLine>(*build_, context_.seed);
}

std::string DataSet::class_name(std::int32_t label) const {
  const std::vector<std::string> classes = line_->order().classes();
  if (label >= 0 && static_cast<std::size_t>(label) < classes.size()) return line_text(classes[static_cast<std::size_t>(label)]);
  return label < 0 ? "no label" : fmt::format("label {}", label);
}

std::uint64_t DataSet::samples_of(const GraphPlan& graph) const {
  SilentServices silent;
  DataContext context = context_;
  context.run = &silent;
  const GraphPlan plan = beginning(graph, Stages::source);
  const GraphBuild build(plan, context);
  return DataLine(build, context.seed).order().listed();
}

void DataSet::load(const SampleKey& key, DataLine::Depth depth, Sample& sample) const {
  try {
    line_->load(key, depth, sample);
  } catch (const Error& error) {
    const std::string& read_last = sample.target_url.empty() ? sample.url : sample.target_url;
    const bool unreadable =
        error.kind() == ErrorKind::data || (error.kind() == ErrorKind::storage && url_scheme(read_last) == "file");
    if (!unreadable || sample.url.empty()) throw;
    sample.fault = SampleFault{plan_.stages.front().name, error.message()};
  }
}

}  // namespace millrace
