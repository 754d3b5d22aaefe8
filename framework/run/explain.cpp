#include "run/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "checkpoint/checkpointer.h"
#include "checkpoint/run_folder.h"
#include "graph/graph.h"
#include "millrace/backend/fusion.h"
#include "millrace/detail/split.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "prepare/graph_build.h"
#include "prepare/prepared_run.h"
#include "report/run_log.h"
#include "run/prepare.h"
#include "weights/fetched_weights.h"

namespace millrace {
namespace {

// Steps in front of the gate, each let through by take() and an answer.
class HeldSteps {
 public:
  struct Step {
    Graph::StepReady ready;
    std::function<void(Graph::StepAgreed)> answer;
  };

  HeldSteps(Graph& graph, std::uint64_t first) : next_(first) {
    graph.on_step_ready([this](Graph::StepReady ready, auto answer) {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      const std::uint64_t step = ready.step;
      steps_.insert_or_assign(step, Step{std::move(ready), std::move(answer)});
      changed_.notify_all();
    });
    graph.on_step_done([this](std::uint64_t step) {
      const std::lock_guard lock(mutex_);
      next_ = step + 1;
      changed_.notify_all();
    });
  }

  // The next step, when its batch is complete and the updates before it are submitted. Nothing: the graph is drained.
  std::optional<Step> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return drained_ || steps_.contains(next_); });
    if (drained_) return std::nullopt;
    return std::move(steps_.extract(next_).mapped());
  }

  // No step is let through any more: the graph stops, and batches go home.
  void close() {
    std::map<std::uint64_t, Step> dropped;  // goes after the lock, since a batch that goes home may bring another one
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(steps_);
  }

  void drain() {
    close();
    const std::lock_guard lock(mutex_);
    drained_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Step> steps_;
  std::uint64_t next_;
  bool closed_ = false, drained_ = false;
};

// Lets every step go, up to the one that `wants` refuses.
void let_steps_go(HeldSteps& steps, const std::function<bool(const Graph::StepReady&)>& wants) {
  while (auto step = steps.take()) {
    const bool go_on = wants(step->ready);
    step->ready.batch = nullptr;
    if (!go_on) return;
    step->answer(Graph::StepAgreed::alone(step->ready));
  }
}

// Does steps [first, last) of the graph. `wants` sees each of them when its batch is complete and the updates before it are
// submitted, and returns whether to do it; after the first refusal no further step is done. Throws what `wants` throws, else what
// the graph throws. REQUIRES: the graph has not been started.
void replay_steps(Graph& graph, std::uint64_t first, std::uint64_t last,
                  const std::function<bool(const Graph::StepReady& ready)>& wants) {
  HeldSteps steps(graph, first);
  std::optional<Error> error;
  std::thread waiter = start_apart(graph, first, last, [&](std::optional<Error> ended) {
    error = std::move(ended);
    steps.drain();
  });
  std::optional<Error> thrown;
  try {
    let_steps_go(steps, wants);
  } catch (...) {
    thrown = current_error();
  }
  steps.close();
  graph.stop();
  waiter.join();
  if (thrown) throw *thrown;
  if (error) throw *error;
}

// Does the steps of the main graph as Run would, but writes nothing and informs no observers. From step `from` on, calls `look`
// with each batch when all earlier updates are done; it returns whether to do its step. Throws what it throws.
void replay(PreparedRun& run, std::uint64_t from, const std::function<bool(Batch& batch)>& look) {
  run.open_graphs();
  start_replicas(run);
  if (run.resume_point) {
    restore_run(*run.resume_point, run.view(), saved_stages(run.main()), {run.pipeline.title(), run.record().versions},
                [&run](std::string text) { run.audience.observers().warn(std::move(text)); });
    run.audience.requests().set_factor(run.steps.first, run.resume_point->checkpoint.state.rate_factor);
  }
  if (run.steps.first >= run.steps.end) return;
  replay_steps(*run.graphs.front(), run.steps.first, run.steps.end, [&](const Graph::StepReady& ready) {
    run.replicas.finish();
    return ready.step < from || look(*ready.batch);
  });
}

// The first parameter or running statistic that is not finite now; "": all are.
std::string wrong_parameter(const Network& network, Replica& replica) {
  for (const Layer& layer : network.layers) {
    for (const int p : layer.parameters) {
      const Spread values(replica.read(kValue, p));
      if (values.wrong == 0) continue;
      return fmt::format("'{}' of layer '{}' is not finite: {}\n", network.parameters[static_cast<std::size_t>(p)].name,
                         layer.name, values.text());
    }
  }
  return {};
}

std::string replica_text(const PreparedRun& run, std::size_t replica) {
  return run.replicas.here().size() > 1 ? fmt::format(", replica {}", replica) : std::string();
}

// The same of all replicas; `when` begins the line.
std::string wrong_parameter(const PreparedRun& run, const std::string& when) {
  for (std::size_t r = 0; r < run.replicas.here().size(); ++r) {
    const std::string found = wrong_parameter(*run.pipeline.network, *run.replicas.here()[r]);
    if (!found.empty()) return fmt::format("{}{}: {}", when, replica_text(run, r), found);
  }
  return {};
}

// Looks into one step of a run whose weights are those before the step.
class StepExamination {
 public:
  StepExamination(const PreparedRun& run, Batch& batch) : run_(run), network_(*run.pipeline.network), batch_(batch) {
    run.main().add_requests(request_);
    request_.sync_batch_norm = false;  // replicas are looked at one after the other
  }

  // "": all is finite.
  std::string text() {
    for (replica_ = 0; replica_ < run_.replicas.here().size(); ++replica_) {
      share_ = split(batch_.count, run_.replicas.here().size(), run_.replicas.load())[replica_];
      if (share_.count == 0) continue;
      for (const auto look :
           {&StepExamination::parameters, &StepExamination::samples, &StepExamination::forward, &StepExamination::backward}) {
        if (const std::string found = (this->*look)(); !found.empty()) return heading() + found;
      }
    }
    return {};
  }

 private:
  std::string heading() const { return fmt::format("step {}{}, ", batch_.step + 1, replica_text(run_, replica_)); }

  Replica& source() const { return *run_.replicas.here()[replica_]; }

  std::string parameters() {
    const std::string found = wrong_parameter(network_, source());
    return found.empty() ? found : "before it begins: " + found;
  }

  std::string samples() {
    for (std::uint32_t slot = share_.begin; slot < share_.begin + share_.count; ++slot) {
      std::size_t begin = std::size_t{slot} * batch_.numbers_per_sample, count = batch_.numbers_per_sample;
      if (batch_.row_offsets != nullptr) {
        begin = std::size_t{batch_.row_offsets[slot]} * batch_.numbers_per_sample;
        count = std::size_t{batch_.row_offsets[slot + 1]} * batch_.numbers_per_sample - begin;
      }
      const auto numbers =
          batch_.numbers == nullptr ? std::span<const float>() : std::span<const float>(batch_.numbers + begin, count);
      if (const Spread spread(numbers); spread.wrong > 0) {
        return fmt::format("input: the numbers of {} are not finite: {}\n", sample_text(slot), spread.text());
      }
      if (!std::isfinite(batch_.weights[slot])) return fmt::format("input: the weight of {} is not finite\n", sample_text(slot));
    }
    return {};
  }

  std::string sample_text(std::uint32_t slot) const {
    const Sample& sample = batch_.samples[slot];
    return fmt::format("sample {} of the batch ('{}', epoch {}, position {})", slot, sample.place(), sample.key.epoch + 1,
                       sample.key.position);
  }

  // By layer: whether it leads to a loss.
  std::vector<bool> computed_layers() const { return layers_for(network_, request_.loss_outputs(network_)); }

  std::unique_ptr<Replica> started(const Network& network, const std::vector<int>& parameters, CompileRequest request) const {
    CompileOptions options;
    options.train_batch = options.largest_train_batch = share_.count;
    options.precision = run_.replicas.precision();
    options.seed = static_cast<std::uint64_t>(run_.pipeline.run.seed);
    options.graphs = false;
    options.replica = replica_;
    options.request = std::move(request);
    std::unique_ptr<Replica> replica = run_.replicas.devices().devices[replica_]->compile(network, options);
    replica->start();
    for (std::size_t p = 0; p < parameters.size(); ++p)
      replica->write(kValue, static_cast<int>(p), source().read(kValue, parameters[p]));
    replica->ingest(Ref<Batch>(&batch_), share_.begin, share_.count);  // which counts as in flight
    replica->forward(batch_.step);
    return replica;
  }

  std::vector<float> output_of(int layer) const {
    std::vector<int> parameters;
    const Network part = part_of(network_, layer, parameters);
    return started(part, parameters, {})->logits();
  }

  std::string forward() {
    const std::vector<bool> computed = computed_layers();
    for (int index = 0; index < static_cast<int>(computed.size()); ++index) {
      if (!computed[static_cast<std::size_t>(index)]) continue;
      const std::vector<float> values = output_of(index);
      const Spread spread(values);
      if (spread.wrong == 0) continue;
      const Layer& layer = network_.layers[static_cast<std::size_t>(index)];
      const std::size_t of_sample = values.size() / share_.count;
      std::string text = fmt::format(
          "forward: layer '{}' ({}) is the first whose output is not finite\n  its output: {}\n  first in {}\n", layer.name,
          layer.op, spread.text(), sample_text(share_.begin + static_cast<std::uint32_t>(spread.first_wrong / of_sample)));
      for (const LayerPort& input : layer.inputs) {
        if (input.layer == Network::kInput) {
          text += "  before it: the network's input\n";
        } else {
          text += fmt::format("  before it, '{}': {}\n", network_.layers[static_cast<std::size_t>(input.layer)].name,
                              Spread(output_of(input.layer)).text());
        }
      }
      return text + parameters_of(layer);
    }
    return {};
  }

  std::string parameters_of(const Layer& layer) const {
    std::string text;
    for (const int p : layer.parameters) {
      text += fmt::format("  its '{}': {}\n", network_.parameters[static_cast<std::size_t>(p)].name,
                          Spread(source().read(kValue, p)).text());
    }
    return text;
  }

  std::vector<LossTerm> terms(std::vector<StepSums>& sums) const {
    std::vector<LossTerm> made;
    sums.resize(request_.losses.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const LossAt& each = request_.losses[i];
      const Shape& shape = network_.shape_of(each.output.value_or(network_.result()));
      const double weight = each.loss->weight(batch_, {0, batch_.count}, shape.elements() / shape[0]);
      made.push_back({.loss = each.loss, .divisor = each.divisor(weight), .sums = &sums[i], .output = each.output});
    }
    return made;
  }

  std::string backward() {
    std::vector<int> all(network_.parameters.size());
    for (std::size_t p = 0; p < all.size(); ++p) all[p] = static_cast<int>(p);
    std::vector<StepSums> sums;  // outlives the replica, which writes it
    const std::unique_ptr<Replica> replica = started(network_, all, request_);
    replica->losses(terms(sums));
    replica->backward([](int, const Ref<Event>&) {});
    replica->finish();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double loss = sums[i].loss();
      if (std::isfinite(loss)) continue;
      const Spread output(replica->logits());
      return fmt::format("forward: the loss '{}' is {}, but the network's output is finite: {}\n",
                         request_.losses[i].loss->info().name, std::isnan(loss) ? std::abs(loss) : loss, output.text());
    }
    for (std::size_t index = network_.layers.size(); index-- > 0;) {
      const Layer& layer = network_.layers[index];
      for (const int p : layer.parameters) {
        if (!replica->has_state(kGradient, p)) continue;
        const Spread spread(replica->read(kGradient, p));
        if (spread.wrong == 0) continue;
        return fmt::format("backward: layer '{}' ({}) is the first with a gradient that is not finite\n  of '{}': {}\n{}",
                           layer.name, layer.op, network_.parameters[static_cast<std::size_t>(p)].name, spread.text(),
                           parameters_of(layer));
      }
    }
    return {};
  }

  const PreparedRun& run_;
  const Network& network_;
  Batch& batch_;
  CompileRequest request_;
  std::size_t replica_ = 0;
  Share share_;
};

std::string where_it_began(const PreparedRun& run) {
  if (const auto& from = run.resume_point) return fmt::format("the checkpoint '{}'", from->path.string());
  return "the first step, since the run has no checkpoint";
}

// For a run whose losses and gradients are finite: the step before which a weight or a running statistic is not. Training takes
// the statistics of its batches, so that running ones show in validation alone.
std::string explain_parameters(const Pipeline& pipeline, const Registry& registry, const RunOptions& options) {
  const auto run = prepare(pipeline, registry, options);
  std::string found;
  replay(*run, 0, [&](Batch& batch) {
    found = wrong_parameter(*run, fmt::format("step {}, before it begins", batch.step + 1));
    return found.empty();
  });
  return found.empty() ? wrong_parameter(*run, "after the last step") : found;
}

}  // namespace

Spread::Spread(std::span<const float> values) : count(values.size()) {
  bool any = false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      if (wrong++ == 0) first_wrong = i;
      continue;
    }
    smallest = any ? std::min(smallest, values[i]) : values[i];
    largest = any ? std::max(largest, values[i]) : values[i];
    any = true;
  }
}

std::string Spread::text() const {
  if (count == 0) return "no values";
  if (wrong == count) return fmt::format("none of {} values is finite", count);
  const std::string range = fmt::format("{:.4g} to {:.4g}", smallest, largest);
  if (wrong == 0) return fmt::format("{}, all {} values are finite", range, count);
  return fmt::format("{}, {:.3g} % of {} values are not finite", range,
                     100.0 * static_cast<double>(wrong) / static_cast<double>(count), count);
}

Network part_of(const Network& whole, int layer, std::vector<int>& parameters) {
  Network part;
  part.input = whole.input;
  part.mean = whole.mean;
  part.deviation = whole.deviation;
  part.name = whole.name;
  std::vector<int> place(whole.layers.size(), -1);
  std::vector<int> place_of_parameter(whole.parameters.size(), -1);
  Network head = whole;  // ends with the layer, which is its result then
  head.layers.resize(static_cast<std::size_t>(layer) + 1);
  const std::vector<bool> needed = layers_for(head, {});
  for (std::size_t index = 0; index < needed.size(); ++index) {
    if (!needed[index]) continue;
    Layer copy = whole.layers[index];
    for (LayerPort& input : copy.inputs) {
      if (input.layer != Network::kInput) input.layer = place[static_cast<std::size_t>(input.layer)];
    }
    for (int& p : copy.parameters) {
      int& at = place_of_parameter[static_cast<std::size_t>(p)];
      if (at < 0) {
        at = static_cast<int>(parameters.size());
        parameters.push_back(p);
        part.parameters.push_back(whole.parameters[static_cast<std::size_t>(p)]);
      }
      p = at;
    }
    place[index] = static_cast<int>(part.layers.size());
    part.layers.push_back(std::move(copy));
  }
  return part;
}

std::string explain_numbers(const Pipeline& pipeline, const Registry& registry, RunOptions options, const std::string& folder) {
  if (options.graph.empty()) options.graph = pipeline.graphs.front().name;
  const GraphPlan* graph = pipeline.graph(options.graph);
  if (graph == nullptr || !trains(*graph) || !has_reports(*graph)) {
    fail(ErrorKind::usage, "{}: --explain-nan takes a graph that trains and reports its loss (stage metrics): [{}] does not",
         pipeline.title(), options.graph);
  }
  if (options.processes() > 1) fail(ErrorKind::usage, "--explain-nan takes one process: leave out --processes");
  require_run_folder("--explain-nan", folder, is_remote(pipeline.checkpoint.folder));  // a run of another machine has none here
  options.resume.run = folder;
  options.resume.replays = true;
  std::optional<WrongNumber> wrong;
  std::uint64_t first = 0;
  std::string began, at_the_end;
  {
    const auto run = prepare(pipeline, registry, options);
    const NumberWatch& numbers = run->audience.log().findings().numbers;
    first = run->steps.first;
    began = where_it_began(*run);
    replay(*run, 0, [&](Batch&) { return !numbers.trouble(); });
    wrong = numbers.trouble();
    if (!wrong) at_the_end = wrong_parameter(*run, "after the last step");
  }
  if (!wrong && at_the_end.empty())
    return fmt::format("replayed from {}: all losses, gradients and weights are finite. Use the run's file and options\n", began);
  if (!wrong) {
    return fmt::format("replayed from {}: all losses and gradients are finite, but not all weights\n{}", began,
                       explain_parameters(pipeline, registry, options));
  }
  std::string found;
  const auto run = prepare(pipeline, registry, options);
  replay(*run, std::max(wrong->step, first + 1) - 1, [&](Batch& batch) {
    found = StepExamination(*run, batch).text();
    return found.empty() && batch.step < wrong->step;
  });
  if (found.empty()) found = "each layer alone is finite, but a fused or summed result of the run is not\n";
  return fmt::format("replayed from {}: {}\n{}", began, wrong->text(), found);
}

}  // namespace millrace
