#include "testkit/graph_fixture.h"

#include "data/sample_order.h"
#include "millrace/batch.h"
#include "millrace/util/batcher.h"

namespace millrace::testkit {

TestGraph::TestGraph(std::uint64_t seed, int replicas) : seed_(seed), replicas_(replicas) { plan_.name = "train"; }

Stage& TestGraph::add(const std::string& name, StageType type, const Value& table) {
  const StageType& kept = types_.emplace_back(std::move(type));
  StepContext context;
  context.graph = plan_.name;
  context.name = name;
  context.seed = seed_;
  context.image = context.window = image_;
  context.run = &run_;
  context.registry = registry_;
  context.target = graph_options_.target;
  std::vector<std::shared_ptr<Stage>>& instances = stages_.emplace_back();
  for (int replica = 0; replica < (kept.per_replica ? replicas_ : 1); ++replica) {
    context.replica = kept.per_replica ? replica : -1;
    Diagnostics errors;
    instances.push_back(kept.create(table, context, errors));
    errors.throw_if_any();
    instances.back()->open();
  }
  const ImageShape shape = instances[0]->image_shape();
  if (shape.is_static()) image_ = shape;
  if (const auto target = instances[0]->target()) graph_options_.target = *target;
  plan_.stages.push_back({name, &kept, table, {}, {}});
  connect(static_cast<int>(plan_.stages.size()) - 1);
  return *instances[0];
}

void TestGraph::connect(int to) {
  const std::vector<Port>& inputs = plan_.stages[static_cast<std::size_t>(to)].type->inputs;
  for (std::size_t port = 0; port < inputs.size(); ++port) {
    bool found = false;
    for (int from = to - 1; from >= 0 && !found; --from) {
      const std::vector<Port>& outputs = plan_.stages[static_cast<std::size_t>(from)].type->outputs;
      for (std::size_t out = 0; out < outputs.size() && !found; ++out) {
        if (outputs[out].payload != inputs[port].payload) continue;
        plan_.edges.push_back({from, static_cast<int>(out), to, static_cast<int>(port)});
        found = true;
      }
    }
    if (!found) fail(ErrorKind::usage, "no stage sends {} to '{}'", inputs[port].payload, plan_.stages.back().name);
  }
}

Graph& TestGraph::make(const Options& options) {
  graph_options_.seed = seed_;
  graph_options_.chunk = options.chunk;
  graph_options_.guard = options.guard;
  graph_options_.load.assign(options.ranks > 1 ? options.ranks : 0, 1.0);
  graph_options_.first_replica = options.rank;
  graph_options_.replicas = 1;
  graph_options_.host_buffer = options.host_buffer;
  graph_options_.image = graph_options_.window = image_;
  for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
    const Stage& stage = *stages_[i][0];
    if (const auto* source = dynamic_cast<const Source*>(&stage)) {
      graph_options_.samples_per_epoch = SampleOrder(*source, 0).size();
      graph_options_.numbers = source->numbers();
      graph_options_.has_rows = source->has_rows();
    }
    if (const auto* batcher = dynamic_cast<const Batcher*>(&stage)) {
      const BatchSpec spec = batcher->spec();
      graph_options_.steps_per_epoch = spec.steps(graph_options_.samples_per_epoch, spec.size);
    }
  }
  graph_.reset();
  workers_ = std::make_unique<Workers>(options.threads, options.io_threads);
  graph_ = std::make_unique<Graph>(plan_, stages_, graph_options_, *workers_);
  return *graph_;
}

void TestGraph::run(const Options& options) {
  make(options).start(0, options.epochs * steps_per_epoch());
  graph_->wait();
}

}  // namespace millrace::testkit
