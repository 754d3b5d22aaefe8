#include "optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <system_error>
#include <utility>

#include "doubtful_rate.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/stage.h"
#include "without_effect.h"

namespace millrace {
namespace {

// The optimizer for parameters in no group; also the default.
std::string optimizer_name(const OptimizerStage::Params& params, const StepContext& context) {
  const CompileRequest* const request = context.request;
  return request == nullptr || request->update.optimizers.empty() ? params.optimizer : request->update.optimizers.front()->name();
}

}  // namespace

void OptimizerStage::describe(StageDescription<Params>& d) {
  d.name("optimizer").text("Updates each replica's parameters from final gradients.");
  d.input(payload::kGradientBucket).per_replica();
  auto& set = d.params;
  OptimizerParams::describe(set);
  set.add("weight_decay", &Params::weight_decay).range(0).text("L2 factor, multiplied by the learning rate");
  set.add_table("learning_rate", &Params::learning_rate, &ScheduleParams::describe)
      .or_one()
      .text("a number, or a schedule over the run");
  set.add_table("scale_with_batch", &Params::scale_with_batch,
                [](ParamSet<ScaleWithBatch>& members) {
                  members.add("reference", &ScaleWithBatch::reference)
                      .range(0)
                      .required()
                      .unit("samples")
                      .text("batch size that learning_rate is for; 0: any");
                  members.add("scaling", &ScaleWithBatch::scaling)
                      .choices({"linear", "square_root"})
                      .text("multiply the rate by batch / reference, or its square root");
                })
      .text("scales the learning rate with the batch size");
  set.add_list("groups", &Params::groups, &GroupParams::describe, &GroupParams::optimizer_table)
      .text("parameters with their own factors or optimizer; the first match counts");
  AverageParams::describe(set);
}

void OptimizerStage::request(const Params& params, const StageSite& site, CompileRequest& request) {
  if (!request.update.optimizers.empty()) fail(ErrorKind::usage, "the network has one optimizer already");
  request.update.optimizers.push_back(make_optimizer(params, site));
  params.AverageParams::request(request);
  if (!site.network) return;
  const Groups groups(params.groups, *site.network);
  request.update.rate_factor = groups.rate_factors(0);
  request.update.learns_until = groups.learns_until();
  for (const double factor : groups.decay_factors()) request.update.decay.push_back(params.weight_decay * factor);
  request_optimizers(params, site, groups, request.update);
  if (!params.learning_rate.cycle_momentum) return;
  const auto& optimizers = request.update.optimizers;
  if (std::ranges::any_of(optimizers, [](const auto& optimizer) { return optimizer->has_momentum(); })) return;
  fail(ErrorKind::usage, "cycle_momentum of learning_rate needs an optimizer with a momentum above 0, and '{}' has none here",
       optimizers.front()->name());
}

// The optimizer for parameters in no group already exists.
void OptimizerStage::request_optimizers(const Params& params, const StageSite& site, const Groups& groups,
                                        OptimizerSpec& update) {
  std::vector<int> of_group;
  for (const GroupParams& group : params.groups) {
    const auto optimizer = make_optimizer(OptimizerParams{group.optimizer.value_or(""), group.optimizer_table}, site, "groups");
    of_group.push_back(optimizer ? static_cast<int>(update.optimizers.size()) : 0);
    if (optimizer) update.optimizers.push_back(optimizer);
  }
  for (const int group : groups.group_of())
    update.optimizer_of.push_back(group < 0 ? 0 : of_group[static_cast<std::size_t>(group)]);
  check_update(update, *site.network);
}

OptimizerStage::OptimizerStage(const Params& params, const StepContext& context)
    : params_(params), context_(context), averages_(params_, context_) {
  ScheduleParams rate = params.learning_rate;
  if (const ScaleWithBatch& scale = params.scale_with_batch; scale.reference > 0) {
    const double ratio = context.batch_size / scale.reference;
    rate.initial *= scale.scaling == "linear" ? ratio : std::sqrt(ratio);
  }
  schedule_.emplace(rate, context.steps_per_epoch, context.total_steps);
  if (context.network) groups_.emplace(params.groups, *context.network);
  if (!context.run || context.first_replica + context.replica != 0) return;
  const std::string rate_said = doubtful_rate(optimizer_name(params_, context_), *schedule_, context_.last_step);
  const std::string decay_said = doubtful_decay(params_.weight_decay, *schedule_, context_.last_step);
  for (const std::string& said : {rate_said, decay_said}) {
    if (!said.empty()) context_.run->warn(context_.place() + ": " + said);
  }
  for (const std::string& said : without_effect(params_, *schedule_, groups_ ? &*groups_ : nullptr, context_)) {
    context.run->warn(context_.place() + ": " + said);
  }
}

void OptimizerStage::open() {
  if (context_.replica != 0 || !context_.run) return;
  Device& device = *context_.devices.front();
  stream_ = device.make_stream("optimizer");
  wrong_ = device.memory(sizeof *step_.wrong, "whether gradients are finite");
  readback_.emplace(device, sizeof *step_.wrong);
}

void OptimizerStage::process(int, Packet packet, Output& output) {
  const auto& bucket = static_cast<const GradientBucket&>(*packet.payload);
  if (updated_ == 0) begin_step(bucket.step);
  step_.scale = bucket.scale;
  // If a stage scales all gradients by one number, it checks them.
  step_.wrong = bucket.scale == nullptr ? reinterpret_cast<std::uint32_t*>(wrong_.get()) : nullptr;
  const Ref<Event> updated = replica().update(bucket.bucket, step_, updated_ == 0 ? behind_report(bucket.ready) : bucket.ready);
  clock_.watch_behind(bucket.ready, updated);
  if (++updated_ == bucket.buckets) {
    if (step_.wrong != nullptr) report_wrong(updated, bucket.step, output);
    end_step();
  }
  packet.payload = nullptr;  // with the step's last bucket, releases its token
}

Stage::DeviceWork OptimizerStage::device_work() const {
  return clock_.work(context_.replicas.empty() ? nullptr : &replica(), &DeviceTimes::update);
}

// The number of updates and, with an average, its number of points.
std::string OptimizerStage::save() const {
  return params_.average ? fmt::format("{} {}", step_.updates_done, averages_.places()) : std::to_string(step_.updates_done);
}

void OptimizerStage::restore(std::string_view saved) {
  const auto read = [saved](std::string_view text, std::uint64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return;
    fail(ErrorKind::data, "numbers of updates and of averaged places cannot be '{}'", saved);
  };
  const std::size_t blank = saved.find(' ');
  std::uint64_t places = 0;
  read(saved.substr(0, blank), step_.updates_done);
  if (blank != std::string_view::npos) read(saved.substr(blank + 1), places);
  averages_.restore(places);
  started_ = step_.updates_done > 0;
}

void OptimizerStage::begin_step(std::uint64_t step) {
  step_.step = step;
  step_.learning_rate = schedule_->rate(step) * (context_.run ? context_.run->rate_factor(step) : 1);
  step_.progress = static_cast<double>(step) / static_cast<double>(std::max<std::uint64_t>(context_.total_steps, 1));
  step_.momentum = schedule_->momentum(step);
  step_.rate_factor = groups_->rate_factors(static_cast<double>(step) / context_.steps_per_epoch);
  if (context_.replica == 0 && context_.run) {
    context_.run->scalar(context_.graph, step, "learning_rate", step_.learning_rate);
    if (step_.momentum) context_.run->scalar(context_.graph, step, "momentum", *step_.momentum);
  }
  if (!std::exchange(started_, true)) averages_.begin();
}

void OptimizerStage::end_step() {
  updated_ = 0;
  ++step_.updates_done;
  averages_.follow(step_.step + 1, step_.updates_done);
}

// A step's first update writes where the report of the previous step reads.
Ref<Event> OptimizerStage::behind_report(const Ref<Event>& ready) {
  if (step_.wrong == nullptr) return ready;
  stream_->wait(ready);
  return stream_->record();
}

void OptimizerStage::report_wrong(const Ref<Event>& updated, std::uint64_t step, Output& output) {
  stream_->wait(updated);
  readback_->read(*stream_, step_.wrong, output, [this, step](const std::uint8_t* bytes) {
    std::uint32_t wrong = 0;
    std::memcpy(&wrong, bytes, sizeof wrong);
    if (wrong != 0) context_.run->not_finite(context_.graph, step, "a gradient");
  });
}

}  // namespace millrace

MILLRACE_PLUGIN("optimizer", "1.0", "Updates of parameters, with schedules, groups and lookahead.") {
  registry.add_stage<millrace::OptimizerStage>();
}
