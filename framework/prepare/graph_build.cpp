#include "prepare/graph_build.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "checkpoint/versions.h"
#include "data/sample_order.h"
#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/stage.h"
#include "millrace/util/load_plugins.h"
#include "millrace/util/sample_cache.h"
#include "millrace/util/source_parts.h"
#include "prepare/class_weights.h"

namespace millrace {

namespace {

// A cache's contents also depend on the source's interpretation of its data: labels and numbers, which the listing's hash
// covers, and targets.
std::uint64_t combined(std::uint64_t fingerprint, std::uint64_t listing, const TargetSpec& target) {
  if (fingerprint == 0) return 0;
  fingerprint = combine(fingerprint, listing);
  if (target.kind == TargetSpec::Kind::none) return fingerprint;
  const std::uint64_t kind = combine(static_cast<std::uint64_t>(target.kind), static_cast<std::uint64_t>(target.scale));
  return combine(fingerprint, combine(kind, hash_bytes(target.classes.data(), target.classes.size(), target.ignored)));
}

// A stage's output also depends on the versions of its plugin and of the framework, which resamples for all stages.
std::uint64_t hash_of(const StageType& type, const Value& table, const Registry* registry) {
  std::string text = type.name + to_toml(table);
  for (const auto& [name, version] : versions_of({})) text += fmt::format("\n{} {}", name, version);
  if (registry != nullptr) {
    for (const PluginInfo& plugin : loaded_plugins(*registry)) {
      if (plugin.name == type.plugin) text += fmt::format("\n{} {}", plugin.name, plugin.version);
    }
  }
  return hash_text(text);
}

bool takes(const GraphPlan& plan, std::string_view payload) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [payload](const StagePlan& stage) {
    return std::any_of(stage.type->inputs.begin(), stage.type->inputs.end(),
                       [payload](const Port& port) { return port.payload == payload; });
  });
}

// Whether each output port of the stage is connected.
std::vector<bool> taken_ports(const GraphPlan& plan, std::size_t stage) {
  std::vector<bool> taken(plan.stages[stage].type->outputs.size());
  for (const EdgePlan& edge : plan.edges) {
    if (edge.from_stage == static_cast<int>(stage)) taken[static_cast<std::size_t>(edge.from_port)] = true;
  }
  return taken;
}

// Adds the positions of values that come neither from the table's file nor from one that it extends. Those lie with their keys.
void add_other_places(const Value& table, const std::string& file, std::vector<std::string>& places) {
  for (const Member& member : table.table()) {
    const Position& at = member.value.at();
    const bool is_inherited = is_in_file(at) && member.at.file && *at.file == *member.at.file;
    if (at.file && *at.file != file && !is_inherited) {
      std::string place = to_string(at);
      if (std::ranges::find(places, place) == places.end()) places.push_back(std::move(place));
    } else if (member.value.kind() == Value::Kind::table) {
      add_other_places(member.value, file, places);
    }
  }
}

// The innermost existing value that a message names within the table, as in "classes[2].colour: ...". Null if it names none.
const Value* named_value(const Value& table, std::string_view message) {
  const Value* value = nullptr;
  std::size_t depth = 0;
  const std::size_t end = message.find(':');
  if (end == std::string_view::npos) return nullptr;
  for (std::string_view path = message.substr(0, end); !path.empty();) {
    const std::size_t length = std::min(path.find_first_of(".[", 1), path.size());
    const std::string_view part = path.substr(0, length);
    const Value& within = value != nullptr ? *value : table;
    const Value* next = nullptr;
    if (!part.starts_with('[')) {
      next = within.kind() == Value::Kind::table ? within.find(part.substr(part.starts_with('.') ? 1 : 0)) : nullptr;
    } else if (within.kind() == Value::Kind::array) {
      std::size_t index = 0;
      std::from_chars(part.data() + 1, part.data() + part.size(), index);
      next = index < within.array().size() ? &within.array()[index] : nullptr;
    }
    if (next == nullptr) break;
    value = next;
    path.remove_prefix(length);
    depth += 1;
  }
  return depth > 1 ? value : nullptr;
}

// The current exception of a stage, with the position of the value that it names. A reference may have brought the value from
// another file. REQUIRES: called inside a catch block.
Error error_at(const StagePlan& stage, const GraphPlan& graph) {
  Error error = current_error();
  const Value* const named = error.context().empty() ? named_value(stage.table, error.message()) : nullptr;
  const bool is_found = named != nullptr && is_in_file(named->at());
  return error.in(is_found ? place_of_stage(named->at(), graph.name, stage.name) : place_of(stage, graph));
}

constexpr const char* kPerDevice = "per_device";  // value of a Batcher's `size`

bool has_gradients(const std::vector<Port>& ports) {
  return std::any_of(ports.begin(), ports.end(), [](const Port& port) { return port.payload == payload::kGradientBucket; });
}

}  // namespace

bool trains(const GraphPlan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const StagePlan& stage) { return has_gradients(stage.type->outputs); });
}
bool has_reports(const GraphPlan& plan) { return takes(plan, payload::kStepResult); }
bool has_predictions(const GraphPlan& plan) { return takes(plan, payload::kPredictions); }
bool only_predicts(const GraphPlan& plan) { return has_predictions(plan) && !has_reports(plan); }

std::string place_of_source(const GraphBuild& build) { return place_of(*build.data().source_plan, build.plan()); }

std::string name_of_source(const GraphBuild& build) {
  return fmt::format("{}.{}", build.data().graph, build.data().source_plan->name);
}

// Other texts come first: they belong to the user, or are closer to the user.
Position place_of_table(const StagePlan& stage) {
  const Position& table = stage.table_at();
  std::vector<std::string> others;
  if (table.file) add_other_places(stage.table, *table.file, others);
  if (stage.users.file && (others.empty() || !is_in_file(stage.users))) others.insert(others.begin(), to_string(stage.users));
  return others.empty() ? table : used_in(fmt::format("{}", fmt::join(others, ", ")), table);
}

std::string place_of(const StagePlan& stage, const GraphPlan& graph) {
  return place_of_stage(place_of_table(stage), graph.name, stage.name);
}

GraphBuild::GraphBuild(const GraphPlan& plan, DataContext context, std::size_t replicas)
    : plan_(&plan), replicas_(std::max<std::size_t>(replicas, 1)) {
  static_cast<DataContext&>(data_) = std::move(context);
  data_.graph = plan.name;
  data_.predicts = has_predictions(plan);
  stages_.resize(plan.stages.size());
  while (made_ < stages_.size()) {
    const StageType::Role role = plan.stages[made_].type->role;
    if (role == StageType::Role::source) {
      make<StageSite>(made_, data_, 1);
    } else {
      make<DataContext>(made_, data_, 1);
    }
    const Stage& stage = *stages_[made_].front();
    ++made_;
    if (stage.image_shape() != ImageShape{}) data_.image = stage.image_shape();
    if (const auto target = stage.target()) data_.target = *target;
    if (data_.fingerprint != 0 && role != StageType::Role::batcher) {
      const StagePlan& made = plan.stages[made_ - 1];
      data_.fingerprint = combine(data_.fingerprint, hash_of(*made.type, made.table, data_.registry));
    }
    if (role == StageType::Role::source) {
      try {
        open_source(made_ - 1);
      } catch (...) {
        throw error_at(plan.stages[made_ - 1], plan);
      }
    }
    if (dynamic_cast<const SampleCache*>(&stage) != nullptr) refuse_random_before_cache();
    if (role == StageType::Role::batcher) {
      data_.batch = static_cast<const Batcher&>(stage).spec();
      data_.chooses_batch = data_.batch.size == 0;
      data_.batcher = &plan.stages[made_ - 1];
      refuse_changes_behind_device_cache();
      break;
    }
  }
}

void GraphBuild::open_source(std::size_t index) {
  Source& source = *static_cast<Source*>(stages_[index].front().get());
  data_.source = &source;
  data_.source_plan = &plan_->stages[index];
  source.open();
  open_.insert(&source);
  const SampleOrder order(source, 0);
  data_.samples_per_epoch = order.size();
  data_.different_samples = order.listed();
  if (!order.classes().empty()) data_.classes = order.classes();
  count_classes(order);
  data_.listing_hash = source.listing_hash();
  if (auto colours = source.colours(); !colours.empty()) data_.colours = std::move(colours);
  require_each_once();
  data_.is_labelled = source.label(order.listed(0)) >= 0;
  data_.fingerprint = combined(source.fingerprint(), data_.listing_hash, data_.target);
  if (data_.fingerprint == 0) return;
  // Leaves out its table: the listing covers the effect on the data, and keys such as `shuffle` change no sample.
  data_.fingerprint = combine(data_.fingerprint, hash_of(*data_.source_plan->type, {}, data_.registry));
}

void GraphBuild::count_classes(const SampleOrder& order) {
  const std::size_t classes = order.classes().size();
  data_.class_counts.assign(classes, 0);
  for (std::uint64_t index = 0; classes > 0 && index < data_.source->size(); ++index) {
    const std::int32_t label = order.label(data_.source->label(index));
    if (label >= 0 && static_cast<std::size_t>(label) < classes) ++data_.class_counts[static_cast<std::size_t>(label)];
  }
}

HasBadSampleBudget* budget_of(const GraphBuild& build) {
  for (const auto& instances : build.stages()) {
    Stage* const stage = instances.empty() ? nullptr : instances.front().get();
    if (auto* const budget = dynamic_cast<HasBadSampleBudget*>(stage)) return budget;
  }
  return nullptr;
}

void require_steps(const GraphBuild& build) {
  const GraphData& data = build.data();
  if (!data.source || data.batch.size == 0 || data.steps_per_epoch() > 0) return;
  fail(ErrorKind::data, "{}: {} samples are fewer than one batch of {}: --set {}.{}.size={} or less, or last = \"keep\"",
       place_of(*data.batcher, build.plan()), data.samples_per_epoch, data.batch.size, build.plan().name, data.batcher->name,
       data.samples_per_epoch);
}

void GraphBuild::require_targets(const std::string& network) const {
  if (data_.network == nullptr) return;
  CompileRequest request;
  add_requests(request);
  LossSetting setting;
  setting.window = data_.network->input;
  setting.target = data_.target;
  setting.numbers = data_.source ? data_.source->numbers() : 0;
  const auto takes_loss = [](const StagePlan& stage) { return stage.type->takes_loss; };
  const auto loss_at = std::ranges::find_if(plan_->stages, takes_loss);
  const std::string where = place_of(loss_at != plan_->stages.end() ? *loss_at
                                     : data_.source_plan            ? *data_.source_plan
                                                                    : plan_->stages.front(),
                                     *plan_);
  const bool has_rows = data_.source && data_.source->has_rows();
  setting.classes = static_cast<std::int64_t>(data_.class_counts.size());
  for (const LossAt& each : request.losses) {
    const std::shared_ptr<const Loss>& loss = each.loss;
    const std::optional<LayerPort>& output = each.output;
    setting.output = data_.network->shape_of(output.value_or(data_.network->result()));
    if (has_rows && loss->info().target == LossTarget::values) {
      fail(ErrorKind::usage, "{}: the samples have varying numbers of rows; loss '{}' takes one row per sample", where,
           loss->info().name);
    }
    try {
      check_loss(*loss, setting);
    } catch (Error& error) {
      const bool has_table = loss_at != plan_->stages.end();
      const Value* const named = has_table ? named_value(loss_at->table, "loss." + error.message()) : nullptr;
      if (named != nullptr) throw error.in(place_of_stage(named->at(), plan_->name, loss_at->name));
      error.in(where);
      throw network.empty() ? error : error.in(network);
    }
    const bool has_others = setting.numbers > 0 || data_.target.kind != TargetSpec::Kind::none;
    if (loss->info().target != LossTarget::labels || data_.is_labelled || !has_others) continue;
    fail(ErrorKind::usage, "{}: the images have {} and no labels, which loss '{}' takes", where,
         setting.numbers > 0 ? "numbers" : "target images", loss->info().name);
  }
}

void GraphBuild::refuse_random_before_cache() const {
  for (std::size_t index = 0; index + 1 < made_; ++index) {
    const auto* transform = dynamic_cast<const SampleTransform*>(stages_[index].front().get());
    if (transform == nullptr || !transform->is_random()) continue;
    fail(ErrorKind::usage,
         "{}: '{}' before it changes images at random, but after the cache every epoch would repeat that change: move the cache "
         "before it",
         place(made_ - 1), plan_->stages[index].name);
  }
}

// Devices keep the cached images and would train on those.
void GraphBuild::refuse_changes_behind_device_cache() const {
  std::string cache;
  for (std::size_t index = 0; index < made_; ++index) {
    const Stage* const stage = stages_[index].front().get();
    const auto* const kept = dynamic_cast<const SampleCache*>(stage);
    const auto* const transform = dynamic_cast<const SampleTransform*>(stage);
    if (kept != nullptr && kept->on_device()) {
      cache = plan_->stages[index].name;
    } else if (!cache.empty() && transform != nullptr && transform->changes_pixels()) {
      fail(
          ErrorKind::usage,
          "{}: it changes pixels, and '{}' before it has `device = true`. Devices keep each image as the cache has it; only "
          "flips "
          "and shifts by whole pixels are made there. If it changes an image alike each time, move it before the cache; else set "
          "`device = false`",
          place(index), cache);
    }
  }
}

void GraphBuild::require_each_once() const {
  const SourceParams& sampling = data_.source->sampling();
  if (!data_.predicts || (!sampling.balance && sampling.class_weights.empty() && parts_of(*data_.source).empty())) return;
  fail(ErrorKind::usage, "each sample is predicted once, but {} some more often than others: remove them from this graph",
       parts_of(*data_.source).empty() ? "`balance` and `class_weights` read" : "a mixture's weights read");
}

std::string GraphBuild::place(std::size_t index) const { return place_of(plan_->stages[index], *plan_); }

template <class Context>
void GraphBuild::make(std::size_t index, const Context& shared, std::size_t instances) {
  const StagePlan& stage = plan_->stages[index];
  Context context = shared;
  context.name = stage.name;
  context.at = place_of_table(stage);
  context.taken = taken_ports(*plan_, index);
  for (std::size_t instance = 0; instance < instances; ++instance) {
    if constexpr (std::is_same_v<Context, StepContext>) {
      context.replica = stage.type->per_replica ? static_cast<int>(instance) : -1;
    }
    Diagnostics errors;
    std::shared_ptr<Stage> made;
    try {
      made = stage.type->create(table(index), context, errors);
    } catch (...) {
      throw error_at(plan_->stages[index], *plan_);
    }
    errors.throw_if_any();
    stages_[index].push_back(std::move(made));
  }
}

Value GraphBuild::table(std::size_t index) const {
  const StagePlan& stage = plan_->stages[index];
  Value table = stage.table;
  if (stage.type->takes_loss && data_.network != nullptr)
    table = with_class_weights(std::move(table), class_weights_, outputs_by_name());
  const Value* const each = stage.type->role == StageType::Role::batcher ? table.find(kPerDevice) : nullptr;
  if (each == nullptr) return table;
  table.set("size", Value(each->integer() * static_cast<std::int64_t>(replicas_), each->at()));
  table.erase(kPerDevice);
  return table;
}

bool has_batch_per_device(const GraphBuild& build) {
  return build.data().batcher != nullptr && build.data().batcher->table.find(kPerDevice) != nullptr;
}

void GraphBuild::add_requests(CompileRequest& request) const {
  for (std::size_t index = 0; index < stages_.size(); ++index) {
    const StagePlan& stage = plan_->stages[index];
    if (!stage.type->request) continue;
    DataContext context = data_;
    context.name = stage.name;
    context.at = place_of_table(stage);
    context.taken = taken_ports(*plan_, index);
    try {
      stage.type->request(table(index), context, request);
    } catch (...) {
      throw error_at(plan_->stages[index], *plan_);
    }
  }
}

// Otherwise replicas would diverge, and only the first one's weights would be saved.
void GraphBuild::require_sums(std::size_t replicas) const {
  for (std::size_t index = 0; replicas > 1 && index < plan_->stages.size(); ++index) {
    const StageType& type = *plan_->stages[index].type;
    if (!has_gradients(type.inputs)) continue;
    if (!type.per_replica) return;  // a shared stage sees all replicas' gradients
    fail(ErrorKind::usage, "{}: there are {} replicas, but no stage before it sums their gradients: put 'allreduce' into flow",
         place(index), replicas);
  }
}

// Changing gradients after the stage that uses them would silently have no effect.
void GraphBuild::require_use_of_gradients() const {
  std::size_t last_use = 0;
  for (std::size_t index = 0; index < plan_->stages.size(); ++index) {
    const StageType& type = *plan_->stages[index].type;
    if (has_gradients(type.inputs) && !has_gradients(type.outputs)) last_use = index;
  }
  for (std::size_t index = 0; last_use > 0 && index < plan_->stages.size(); ++index) {
    const StageType& type = *plan_->stages[index].type;
    const bool used = std::any_of(plan_->edges.begin(), plan_->edges.end(),
                                  [&](const EdgePlan& edge) { return edge.from_stage == static_cast<int>(index); });
    if (used || !has_gradients(type.inputs) || !has_gradients(type.outputs)) continue;
    fail(ErrorKind::usage, "{}: no stage uses the gradients that it sends: put '{}' before '{}' in flow", place(index),
         plan_->stages[index].name, plan_->stages[last_use].name);
  }
}

void GraphBuild::add_step_stages(StepContext context) {
  require_sums(context.all_replicas());
  require_use_of_gradients();
  if (data_.network != nullptr) add_requests(request_);
  static_cast<DataContext&>(context) = data_;
  context.batch_size = data_.batch.size;
  context.steps_per_epoch = static_cast<double>(data_.steps_per_epoch());
  context.request = &request_;
  for (; made_ < stages_.size(); ++made_) {
    const bool per_replica = plan_->stages[made_].type->per_replica;
    if (per_replica && context.replicas.empty()) {
      fail(ErrorKind::usage, "{} works on a network, but the file has no [network]", place(made_));
    }
    make(made_, context, per_replica ? context.replicas.size() : 1);
  }
}

void GraphBuild::open_stages() const {
  for (std::size_t index = 0; index < stages_.size(); ++index) open_stage(index);
}

void GraphBuild::open_stage(std::size_t index) const {
  for (const auto& stage : stages_[index]) {
    if (open_.contains(stage.get())) continue;
    try {
      stage->open();
    } catch (...) {
      throw error_at(plan_->stages[index], *plan_);
    }
    open_.insert(stage.get());
  }
}

std::optional<ResidentSet> GraphBuild::resident_set() const {
  for (const auto& instances : stages_) {
    const auto* cache = instances.empty() ? nullptr : dynamic_cast<const SampleCache*>(instances.front().get());
    if (cache != nullptr && cache->on_device()) return ResidentSet{plan_->name, data_.different_samples, data_.image};
  }
  return std::nullopt;
}

std::shared_ptr<const Loss> GraphBuild::loss() const {
  if (!has_reports(*plan_) || data_.network == nullptr) return nullptr;
  CompileRequest request;
  add_requests(request);
  return request.losses.empty() ? nullptr : request.losses.front().loss;  // the main loss, not an auxiliary one
}

std::vector<std::string> GraphBuild::figures() const {
  std::vector<std::string> names;
  if (const std::shared_ptr<const Loss> reported = loss()) {
    for (const LossFigure& figure : reported->info().figures) {
      if (fits(figure, data_.network->output())) names.push_back(figure.name);
    }
  }
  for (const auto& instances : stages_) {
    for (std::string& name : instances.empty() ? std::vector<std::string>() : instances.front()->reported_figures()) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  }
  return names;
}

std::vector<std::string> GraphBuild::counted_classes() const {
  const std::shared_ptr<const Loss> reported = loss();
  if (!reported || !(reported->info().class_totals || reported->info().class_matrix)) return {};
  return outputs_by_name();
}

std::vector<std::string> GraphBuild::outputs_by_name() const {
  std::vector<std::string> names = data_.classes;
  const auto outputs = static_cast<std::size_t>(data_.network->output()[0]);
  for (std::size_t c = names.size(); c < outputs; ++c) names.push_back(std::to_string(c));
  names.resize(outputs);
  return names;
}

std::uint64_t GraphData::steps_per_epoch() const {
  if (batch.size == 0) return 0;
  return batch.steps(samples_per_epoch, batch.size);
}

std::uint64_t GraphData::samples_until(std::uint64_t step) const {
  const std::uint64_t steps = steps_per_epoch();
  const std::uint64_t of_an_epoch = batch.last == BatchSpec::Last::keep ? samples_per_epoch : steps * batch.size;
  return step / steps * of_an_epoch + step % steps * batch.size;
}

std::string GraphData::read_sample(std::uint64_t index, Sample& sample) const {
  sample.reset({0, 0, index, 0}, {}, target);
  try {
    source->read(sample);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace millrace
