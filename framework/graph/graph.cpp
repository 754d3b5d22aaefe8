#include "graph/graph.h"

#include <algorithm>
#include <future>
#include <tuple>
#include <utility>

#include "graph/feeder.h"
#include "graph/gate.h"
#include "graph/node.h"
#include "graph/tsan.h"
#include "graph/workers.h"
#include "millrace/plugin.h"

namespace millrace {

using flow::Core;
using flow::Credits;
using flow::Feeder;
using flow::FeederPlan;
using flow::Gate;
using flow::Link;
using flow::Node;

namespace {

Link::Carries carries(std::string_view payload_type) {
  if (payload_type == payload::kBatch) return Link::Carries::batch;
  if (payload_type == payload::kSampleChunk || payload_type == payload::kImageChunk) return Link::Carries::chunk;
  return Link::Carries::other;
}

Node::Kind kind_of(const StageType& type) {
  if (type.role == StageType::Role::source) return Node::Kind::source;
  return type.concurrency == Concurrency::serial || type.per_replica ? Node::Kind::serial : Node::Kind::parallel;
}

// By stage: whether it is stepwise, or takes what comes from one. Such packets are in order, and under a token.
std::vector<bool> are_of_steps(const FlowPlan& plan) {
  std::vector<bool> are(plan.stages.size(), false);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    if (plan.stages[i].type->stepwise) are[i] = true;
    for (const EdgePlan& edge : plan.edges) {
      if (edge.from_stage == static_cast<int>(i) && are[i]) are[static_cast<std::size_t>(edge.to_stage)] = true;
    }
  }
  return are;
}

}  // namespace

struct Graph::State {
  State(const FlowPlan& plan, const std::vector<std::vector<std::shared_ptr<Stage>>>& stages, const GraphOptions& options,
        Workers::State& workers);
  ~State();

  void make_core();
  void add_nodes(const FlowPlan& plan, const std::vector<std::vector<std::shared_ptr<Stage>>>& stages);
  void add_links(const FlowPlan& plan);
  void add_retry(const FlowPlan& plan);
  FeederPlan feeder_plan(const FlowPlan& plan, const GraphOptions& options, int threads) const;
  Link& add_link(const std::string& from, const std::string& to);
  std::string sample_of(const flow::WorkTable::Entry& entry, double seconds) const;  // empty: not a chunk
  Counters::Totals totals_of(const flow::Node& node) const;
  void stop_stages();

  const std::string name;
  Workers::State& workers;
  std::unique_ptr<Core> core;
  std::shared_ptr<Credits> credits;
  std::vector<std::vector<std::unique_ptr<Node>>> nodes;  // by stage, by instance
  std::vector<std::unique_ptr<Link>> links;
  std::shared_ptr<Gate> gate;
  std::shared_ptr<Feeder> feeder;
  std::size_t memory_bound = 0;
};

Graph::State::State(const FlowPlan& plan, const std::vector<std::vector<std::shared_ptr<Stage>>>& stages,
                    const GraphOptions& options, Workers::State& the_workers)
    : name(plan.name), workers(the_workers) {
  make_core();
  core->guarded = options.guard;
  credits = std::make_shared<Credits>(core->graph);
  gate = std::make_shared<Gate>(*core, credits, std::max<std::uint64_t>(options.steps_per_epoch, 1));
  add_nodes(plan, stages);
  add_links(plan);
  const FeederPlan feeding = feeder_plan(plan, options, workers.threads);
  feeder = std::make_shared<Feeder>(*core, credits, gate, workers.io, feeding);
  if (options.has_memory) feeder->allocate();
  add_retry(plan);
  core->on_failure = [this] {
    gate->give_up();
    feeder->stop();
    credits->abandon();
  };
  memory_bound = slot_bytes(stages, options) * feeding.spec.size * feeding.spec.buffers;
  for (const auto& instances : nodes) {
    for (const auto& node : instances) memory_bound += node->stage().memory_bound();
  }
}

// A graph belongs to the arena it was made in, where one of the workers makes it.
void Graph::State::make_core() {
  flow::released(this);
  workers.arena.execute([this]() MILLRACE_UNSEEN_BY_TSAN {
    flow::acquired(this);
    core = std::make_unique<Core>();
    flow::released(this);
  });
  flow::acquired(this);
}

Graph::State::~State() {
  feeder->stop();
  gate->stop();
  core->wait();
  stop_stages();
}

void Graph::State::add_nodes(const FlowPlan& plan, const std::vector<std::vector<std::shared_ptr<Stage>>>& stages) {
  const std::vector<bool> of_steps = are_of_steps(plan);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& stage = plan.stages[i];
    const auto instances = static_cast<int>(stages[i].size());
    std::vector<std::unique_ptr<Node>>& made = nodes.emplace_back();
    for (int k = 0; k < instances; ++k) {
      const Node::Place place{plan.name, stage.name, stage.type->per_replica ? k : -1, instances, stage.table_at(), of_steps[i]};
      made.push_back(std::make_unique<Node>(*core, stages[i][static_cast<std::size_t>(k)], kind_of(*stage.type), place,
                                            stage.type->outputs.size()));
    }
  }
}

Link& Graph::State::add_link(const std::string& from, const std::string& to) {
  Link& link = *links.emplace_back(std::make_unique<Link>());
  link.number = links.size();
  link.from = from;
  link.to = to;
  return link;
}

void Graph::State::add_links(const FlowPlan& plan) {
  const std::vector<bool> of_steps = are_of_steps(plan);
  for (const EdgePlan& edge : plan.edges) {
    const auto from = static_cast<std::size_t>(edge.from_stage), to = static_cast<std::size_t>(edge.to_stage);
    const StageType& type = *plan.stages[to].type;
    Link& link = add_link(plan.stages[from].name, plan.stages[to].name);
    for (const auto& node : nodes[to]) link.targets.push_back(node.get());
    link.port = edge.to_port;
    const std::string_view payload_type = type.inputs[static_cast<std::size_t>(edge.to_port)].payload;
    link.carries = carries(payload_type);
    link.carries_encoded = payload_type == payload::kSampleChunk;
    if (type.stepwise && !of_steps[from]) {
      gate->add_entry();
      link.divert = [this, &link](Packet packet) { gate->arrive(link, std::move(packet)); };
    } else if (link.targets.size() == 1) {
      link.bypass = link.targets[0];
    }
    for (const auto& node : nodes[from]) node->connect(edge.from_port, link);
  }
}

void Graph::State::add_retry(const FlowPlan& plan) {
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const StageType& type = *plan.stages[i].type;
    if (type.role != StageType::Role::batcher) continue;
    for (std::size_t port = 0; port < type.outputs.size(); ++port) {
      if (type.outputs[port].payload != payload::kSampleChunk) continue;
      Link& link = add_link(plan.stages[i].name, nodes[0][0]->place().name);
      link.targets.push_back(nodes[0][0].get());
      link.divert = [this, &link](Packet packet) {
        link.counters.add(0, 0, 1, 0);
        feeder->retry(std::move(packet));
      };
      nodes[i][0]->connect(static_cast<int>(port), link);
    }
  }
}

FeederPlan Graph::State::feeder_plan(const FlowPlan& plan, const GraphOptions& options, int threads) const {
  FeederPlan feeding;
  feeding.options = options;
  feeding.threads = threads;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const StageType::Role role = plan.stages[i].type->role;
    Node* node = nodes[i][0].get();
    if (role == StageType::Role::source) feeding.node = node;
    if (role == StageType::Role::sample_transform || role == StageType::Role::batcher) feeding.work.push_back(node);
    if (auto* cache = dynamic_cast<SampleCache*>(&node->stage())) {
      if (feeding.cache)
        fail(ErrorKind::usage, "{}: it would make the cache before it useless: remove one of them from flow",
             place_of_stage(plan.stages[i].table_at(), plan.name, plan.stages[i].name));
      feeding.cache = cache;
    }
    if (role == StageType::Role::batcher) feeding.batcher = node;
    if (role == StageType::Role::batcher) feeding.spec = static_cast<const Batcher&>(node->stage()).spec();
  }
  if (options.batch_size > 0) feeding.spec.size = options.batch_size;
  if (!feeding.node) fail(ErrorKind::usage, "graph '{}' has no source", plan.name);
  if (feeding.spec.size == 0) fail(ErrorKind::usage, "graph '{}' has a source but no stage that makes batches", plan.name);
  if (options.steps_per_epoch == 0) {
    fail(ErrorKind::data, "graph '{}': {} samples do not fill a batch of {}; make the batch smaller, or keep the last one",
         plan.name, options.samples_per_epoch, feeding.spec.size);
  }
  feeding.global_batch = feeding.spec.size;
  feeding.spec.size = feeding.part_of(feeding.global_batch).count;
  if (feeding.spec.size == 0) {
    fail(ErrorKind::usage, "graph '{}': a batch of {} for {} replicas leaves nothing for those of this process", plan.name,
         feeding.global_batch, options.load.size());
  }
  return feeding;
}

void Graph::State::stop_stages() {
  for (const auto& instances : nodes) {
    for (const auto& node : instances) node->stage().stop();
  }
}

Graph::Graph(const FlowPlan& plan, std::vector<std::vector<std::shared_ptr<Stage>>> stages, const GraphOptions& options,
             Workers& workers)
    : state_(std::make_unique<State>(plan, stages, options, *workers.state_)) {}

Graph::~Graph() = default;

void Graph::on_step_ready(Agree agree) { state_->gate->on_step_ready(std::move(agree)); }

void Graph::on_step_done(StepDone callback) { state_->gate->on_step_done(std::move(callback)); }

void Graph::start(std::uint64_t first, std::uint64_t last) {
  if (state_->core->failed()) return;  // wait() reports the cause
  state_->gate->start(first, last);
  state_->feeder->start(first, last);
}

std::uint64_t Graph::set_horizon(std::uint64_t step) { return state_->gate->set_horizon(step); }

void Graph::hold() { state_->gate->hold(); }

void Graph::resume() { state_->gate->resume(); }

void Graph::stop() {
  state_->feeder->stop();
  state_->gate->stop();
}

void Graph::wait() {
  state_->core->wait();
  if (const std::optional<std::uint64_t> step = state_->feeder->lost_step(); step && !state_->core->failed()) {
    state_->core->fail(Error(ErrorKind::run, fmt::format("graph '{}': step {} never became complete: a stage before the first "
                                                         "stepwise one discards samples instead of passing them on",
                                                         state_->name, *step)));
  }
  if (const std::optional<Error> error = state_->core->error()) {
    state_->stop_stages();
    throw Error(*error);
  }
}

const char* Graph::to_string(Threads threads) {
  switch (threads) {
    case Threads::io: return "io";
    case Threads::one: return "one";
    case Threads::workers: break;
  }
  return "workers";
}

Graph::Figures Graph::figures() const {
  const double tick = seconds_per_tick();
  Figures figures;
  for (const auto& instances : state_->nodes) {
    for (const auto& node : instances) {
      const Counters::Totals totals = state_->totals_of(*node);
      StageFigures& stage = figures.stages.emplace_back();
      stage.name = node->place().name;
      stage.replica = node->place().replica;
      stage.busy_seconds = tick * static_cast<double>(totals.busy_ticks);
      stage.computing_share = node->computing_share();
      stage.packets = totals.packets;
      stage.samples = totals.samples;
      stage.bytes = totals.bytes;
      stage.device = node->stage().device_work();
      stage.service = node->service.bins();
      stage.threads = node->kind() == Node::Kind::source   ? Threads::io
                      : node->kind() == Node::Kind::serial ? Threads::one
                                                           : Threads::workers;
    }
  }
  for (const auto& link : state_->links) {
    const Counters::Totals totals = link->counters.totals();
    figures.edges.push_back(
        {link->from, link->to, totals.packets, tick * static_cast<double>(totals.waited_ticks), link->level()});
  }
  const Gate::Waited waited = state_->gate->waited();
  figures.waited_for_data_seconds = tick * static_cast<double>(waited.for_data);
  figures.waited_for_ranks_seconds = tick * static_cast<double>(waited.for_ranks);
  figures.waited_for_step_seconds = tick * static_cast<double>(waited.for_step);
  figures.waited_for_credit_seconds = tick * static_cast<double>(state_->feeder->waited_for_credit());
  return figures;
}

// A packet is counted when it is done. One under way counts as far as it has come: else a stage would have been busy for more
// than all of the time between two looks, where a packet has taken longer than that.
Counters::Totals Graph::State::totals_of(const flow::Node& node) const {
  constexpr int kTries = 3;  // where packets take microseconds, one more or less is nothing
  Counters::Totals totals = node.counters.totals();
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t under_way = core->work.ticks_of(&node, now_ticks()), packets = totals.packets;
    totals = node.counters.totals();
    if (totals.packets != packets && i + 1 < kTries) continue;  // what was under way is perhaps counted now
    totals.busy_ticks += under_way;
    break;
  }
  return totals;
}

// A name is read where it lies, so only of a sample that a thread has held for long and nobody else touches.
std::string Graph::State::sample_of(const flow::WorkTable::Entry& entry, double seconds) const {
  constexpr double kHeld = 1;
  const std::uint32_t count = entry.count, sample = entry.sample;
  if (count == 0) return {};
  const std::string place = seconds >= kHeld ? feeder->place_of(entry.step, entry.begin + sample) : std::string();
  return place.empty() ? fmt::format("{} of {}", sample + 1, count) : fmt::format("'{}'", place);
}

std::uint64_t Graph::packets_done() const {
  std::uint64_t packets = 0;
  for (const auto& instances : state_->nodes) {
    for (const auto& node : instances) packets += node->counters.totals().packets;
  }
  return packets;
}

Graph::StallReport Graph::stall_report() const {
  StallReport stall_report;
  const std::uint64_t now = now_ticks();
  for (const flow::WorkTable::Entry& entry : state_->core->work.entries()) {
    const Node* const node = entry.node.load(std::memory_order_acquire);
    if (node == nullptr) continue;
    const std::uint64_t since = entry.since;
    const double seconds = seconds_per_tick() * static_cast<double>(now - std::min(now, since));
    stall_report.work.push_back(
        {node->place().name, node->kind() == Node::Kind::source, entry.step, seconds, state_->sample_of(entry, seconds)});
  }
  std::ranges::sort(stall_report.work, std::greater(), &Work::seconds);
  stall_report.reading = state_->feeder->reading();
  for (EdgeFigures& edge : figures().edges) {
    if (edge.level > 0) stall_report.queued.push_back(std::move(edge));
  }
  std::tie(stall_report.waiting_for, stall_report.step) = state_->gate->waiting_for();
  return stall_report;
}

RunningStage running_stage() noexcept {
  const Node::Place* const place = Node::running();
  return place ? RunningStage{place->graph.c_str(), place->name.c_str()} : RunningStage{};
}

std::size_t Graph::memory_bound() const { return state_->memory_bound; }

std::thread start_apart(Graph& graph, std::uint64_t first, std::uint64_t last,
                        std::function<void(std::optional<Error> error)> drained) {
  std::promise<void> started;
  std::thread waiter;
  try {
    waiter = std::thread([&graph, drained = std::move(drained), start = started.get_future()] {
      start.wait();
      std::optional<Error> error;
      try {
        graph.wait();
      } catch (...) {
        error = current_error();
      }
      drained(std::move(error));
    });
    graph.start(first, last);
  } catch (...) {
    const Error error = current_error();
    started.set_value();
    if (waiter.joinable()) {
      graph.stop();
      waiter.join();
    }
    throw Error(error);
  }
  started.set_value();
  return waiter;
}

}  // namespace millrace
