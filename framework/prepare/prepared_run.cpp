#include "prepare/prepared_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/secrets.h"
#include "checkpoint/best.h"
#include "checkpoint/replica_values.h"
#include "checkpoint/verify.h"
#include "config/document.h"
#include "config/named_weights.h"
#include "millrace/error.h"
#include "millrace/util/host_cores.h"
#include "prepare/load_choice.h"
#include "stages/class_weights.h"
#include "weight_files/weights.h"

namespace millrace {
namespace {

// Replaces the file's weights by --weights.
void set_weights(Value& network, const std::string& file) {
  Value* const setting = network.find("weights");
  if (setting != nullptr && setting->kind() == Value::Kind::table) {
    setting->set("file", Value(file));
  } else {
    network.set("weights", Value(file));
  }
  network.erase("sha256");  // belongs to the file that was not read
}

// A resumed run uses the initial weights in its checkpoint, regardless of the file now.
void keep_weights_of(const ResumePoint& from, Value& network) {
  Diagnostics ignored;  // errors were reported before
  const auto then = parse_toml(from.checkpoint.pipeline, from.path.string(), ignored);
  const Value* const begun = then ? then->find("network") : nullptr;
  for (const char* key : kKeysOfWeights) {
    network.erase(key);
    if (const Value* const setting = begun != nullptr ? begun->find(key) : nullptr) network.set(key, *setting);
  }
}

}  // namespace

PreparedRun::PreparedRun(const Pipeline& checked, const Registry& plugins, RunOptions asked)
    : adapted(checked), registry(plugins), options(std::move(asked)), audience(pipeline, options), places(pipeline, registry) {}

PreparedRun::~PreparedRun() {
  const Error given_up(ErrorKind::peer, "it was given up");
  leave(&given_up);
}

void PreparedRun::leave(const Error* why) {
  if (options.group == nullptr) return;
  options.group->leave(why);
  replicas.give_up();
  audience.stop_listening();
}

int PreparedRun::data_threads() const {
  return static_cast<int>(pipeline.run.threads > 0 ? pipeline.run.threads
                                                   : static_cast<std::int64_t>(replicas.devices().data_threads));
}

bool PreparedRun::saves_checkpoints() const {
  return pipeline.checkpoint.wanted && pipeline.network && trains(stepping_graph()) && !options.only_main;
}

ReplicaView PreparedRun::view() const {
  return {.network = *pipeline.network,
          .replicas = replicas.here(),
          .devices = replicas.devices().devices,
          .copies = replicas.request().copies,
          .evaluated = replicas.request().evaluated,
          .load = replicas.load(),
          .first_replica = replicas.devices().first_replica,
          .all_replicas = replicas.all(),
          .group = options.group};
}

std::map<std::string, SavedState::Data> PreparedRun::data() const {
  std::map<std::string, SavedState::Data> all;
  for (const auto& build : builds) {
    const GraphData& data = build->data();
    if (data.source == nullptr) continue;
    const std::string source = name_of_source(*build);
    all[source] = {data.samples_per_epoch, data.classes, data.class_counts, data.listing_hash};
    if (const auto known = contents.find(source); known != contents.end()) all[source].contents = known->second;
  }
  return all;
}

RunRecord PreparedRun::record() const {
  Versions versions = versions_of_code(pipeline, registry);
  versions.merge(versions_of(replicas.devices().devices));
  return {.pipeline = to_toml(resolved()),
          .network = network_text,
          .data = data(),
          .backend = replicas.devices().devices.front()->info().backend,
          .precision = to_string(replicas.precision()),
          .replicas = replicas.all(),
          .versions = std::move(versions)};
}

WeightsOptions PreparedRun::weights_options() const {
  return {.file = options.weights, .begins = options.from.epoch == 0 && options.from.step == 0, .is_profile = options.only_main};
}

Value PreparedRun::resolved() const {
  Value resolved = with_class_weights(pipeline.resolved, class_weights);
  for (const auto& build : builds) {
    if (!build->data().chooses_batch && !has_batch_per_device(*build)) continue;
    Value& graph = *resolved.find(build->plan().name);
    const std::string& batcher = build->data().batcher->name;
    if (graph.find(batcher) == nullptr) graph.set(batcher, Value());
    graph.find(batcher)->set("size", Value(static_cast<std::int64_t>(build->data().batch.size)));
    graph.find(batcher)->erase("per_device");
  }
  if (measures_load(pipeline) && !replicas.load().empty()) {
    Array load;
    for (const double share : replicas.load()) load.emplace_back(share);
    resolved.find("run")->set("load", Value(std::move(load)));
  }
  if (resolved.find("run") == nullptr) resolved.set("run", Value());
  Value& setting = *resolved.find("run");
  setting.set("name", Value(pipeline.run.name));
  if (!options.devices.empty()) setting.set("devices", Value(options.devices));
  if (!pipeline.network) return resolved;
  const std::string asked = without_secrets(options.weights);
  if (resume_point) {
    keep_weights_of(*resume_point, *resolved.find("network"));
  } else if (!asked.empty() && asked != named_weights(resolved)) {
    set_weights(*resolved.find("network"), asked);
  }
  return resolved;
}

GraphOptions PreparedRun::graph_options(std::size_t g) const {
  const GraphData& data = builds[g]->data();
  const OpenDevices& devices = replicas.devices();
  GraphOptions graph;
  graph.resident_set = replicas.resident_set(g);
  graph.seed = static_cast<std::uint64_t>(pipeline.run.seed);
  graph.chunk = static_cast<std::uint32_t>(pipeline.run.chunk);
  graph.samples_per_epoch = data.samples_per_epoch;
  graph.batch_size = data.batch.size;
  graph.guard = options.guard;
  graph.keeps_batches = options.only_steps && g == 0;
  graph.has_memory = !options.only_check;
  graph.steps_per_epoch = data.steps_per_epoch();
  graph.image = data.image;
  graph.target = data.target;
  graph.numbers = data.source ? data.source->numbers() : 0;
  graph.has_rows = data.source && data.source->has_rows();
  graph.window = pipeline.network ? pipeline.network->input : data.image;
  if (options.group != nullptr) {
    graph.load = replicas.load();
    if (graph.load.empty()) graph.load.assign(replicas.all(), 1.0);
    graph.first_replica = static_cast<std::uint32_t>(devices.first_replica);
    graph.replicas = static_cast<std::uint32_t>(replicas.here().size());
  }
  if (!devices.devices.empty()) {
    graph.host_buffer = [device = devices.devices.front().get()](std::size_t bytes) { return device->host_buffer(bytes); };
  }
  return graph;
}

std::vector<MemoryItem> PreparedRun::memory_with(const Replicas& candidates) const {
  const OpenDevices& devices = replicas.devices();
  MemoryNeeds needs{.threads = static_cast<std::size_t>(pipeline.run.io_threads) + available_cores().size() + 4,
                    .network = pipeline.network.get()};
  for (std::size_t g = 0; g < builds.size(); ++g) {
    const GraphBuild& build = *builds[g];
    MemoryNeeds::Graph graph{.name = build.plan().name,
                             .slot_bytes = slot_bytes(build.stages(), graph_options(g)),
                             .slots = replicas.slots_here(build.data().batch.size),
                             .batch_size = build.data().batch.size,
                             .buffers = build.data().batch.buffers};
    for (std::size_t s = 0; s < build.stages().size(); ++s) {
      std::size_t bytes = 0;
      for (const auto& stage : build.stages()[s]) bytes += stage->memory_bound();
      graph.stages.push_back({build.plan().stages[s].name, bytes});
    }
    needs.graphs.push_back(std::move(graph));
  }
  for (std::size_t r = 0; r < candidates.size(); ++r) {
    needs.replicas.push_back(
        {device_name(devices.devices[r]->info()), candidates[r]->memory_plan(), devices.cores.replicas[r].size()});
  }
  needs.weights_from_file = !weights.from.file.empty();
  needs.keeps_best_weights = pipeline.best && !pipeline.run.folder.empty() && !options.only_main;
  if (!candidates.empty() && saves_checkpoints()) {
    needs.checkpoint_bytes = checkpoint_bytes(*pipeline.network, *candidates.front(), replicas.request().copies, replicas.all());
  }
  needs.keeps_best_checkpoint = best_figure(pipeline).has_value();
  return memory_budget(needs);
}

void leave_on_error(PreparedRun& run, const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    const Error error = current_error();
    run.leave(&error);
    throw;
  }
}

void leave_together(PreparedRun& run) {
  if (run.options.group != nullptr) run.options.group->barrier(Group::kRun);
  run.leave(nullptr);
}

void require_memory_of(const PreparedRun& run) {
  require_possible_memory(run.memory(), host_memory_for("", run.replicas.devices().processes_here));
  if (run.options.keeps_to_memory) require_memory(run.memory(), run.host_memory(), !run.pipeline.run.memory.empty());
}

void PreparedRun::open_graphs() {
  if (!graphs.empty()) return;
  const std::size_t there = host_memory_for("", replicas.devices().processes_here);
  if (options.only_check && there > 0 && total_bytes(memory()) > there) return;
  require_memory_of(*this);
  RunLog& log = audience.log();
  const bool has_folder = log.output_folder() != options.folders.outputs;
  if (!has_folder && !options.only_main) log.set_folder(pipeline.run.folder);
  workers = std::make_unique<Workers>(data_threads(), static_cast<int>(pipeline.run.io_threads),
                                      cores_of_data(replicas.devices().cores, static_cast<std::size_t>(data_threads())));
  for (std::size_t g = 0; g < builds.size(); ++g) {
    GraphBuild& build = *builds[g];
    options.doing(fmt::format("opening the stages of [{}]", build.plan().name));
    build.open_stages();
    graphs.push_back(std::make_unique<Graph>(build.plan(), build.stages(), graph_options(g), *workers));
  }
}

const SavedState::Contents* contents_then(const PreparedRun& run, const GraphBuild& build) {
  if (!run.resume_point || build.data().source == nullptr) return nullptr;
  const auto& data = run.resume_point->checkpoint.state.data;
  const auto known = data.find(name_of_source(build));
  if (known == data.end() || known->second.listing_hash != build.data().listing_hash) return nullptr;
  return known->second.contents.samples.empty() ? nullptr : &known->second.contents;
}

std::map<std::string, std::string> weights_metadata(const PreparedRun& run) {
  std::map<std::string, std::string> metadata = plans_of(run.replicas.here(), run.replicas.devices().devices);
  metadata.merge(metadata_of(run.main().data().classes));
  if (run.images) metadata.merge(metadata_of(*run.images));
  if (!run.recipe) return metadata;
  InferenceRecipe recipe = *run.recipe;  // with the automatic values
  recipe.precision = to_string(run.replicas.precision());
  recipe.measure = with_class_weights(std::move(recipe.measure), run.class_weights);
  for (const auto& build : run.builds) {
    if (build->plan().name == recipe.graph) recipe.batch = build->data().batch.size;
  }
  metadata.merge(metadata_of(recipe));
  return metadata;
}

SavedStages saved_stages(const GraphBuild& main) {
  SavedStages stages;
  for (std::size_t s = 0; s < main.stages().size(); ++s) stages.push_back({main.plan().stages[s].name, main.stages()[s]});
  return stages;
}

void start_replicas(PreparedRun& run) {
  run.options.doing("allocating the network's memory and writing its weights");
  for (const auto& replica : run.replicas.here()) replica->start();
  if (run.replicas.here().empty() || run.resume_point) return;
  write_initial_values(run.weights, run.pipeline, run.main(), run.replicas.here(), run.weights_options());
}

std::string verify(PreparedRun& run, std::uint64_t most) {
  if (!run.resume_point) return {};
  const auto read = [&](std::uint64_t first, std::uint64_t last) {
    RunLog& log = run.audience.log();
    if (run.options.is_first()) log.set_folder(run.resume_point->run);  // stages opened here write there
    run.open_graphs();
    run.options.doing(fmt::format("reading the batches of steps {} to {} again", first + 1, last));
    log.set_dry_run(true);
    BatchHashList hashes = read_batches(*run.graphs.front(), first, last);
    log.set_dry_run(false);
    return hashes;
  };
  return verify_batches(*run.resume_point, run.steps.first, most, read, run.options.group);
}

}  // namespace millrace
