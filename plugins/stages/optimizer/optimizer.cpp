#include "optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "millrace/error.h"
#include "millrace/plugin.h"

namespace millrace {

namespace {

constexpr double kMaxOfFirst = 0.2;  // share of the initial weights in a useful average
constexpr double kLeastRate = 1e-3;   // relative to the first one

// Finds optimizer parameters that have no effect in a run.
class Search {
 public:
  Search(const OptimizerStage::Params& params, const StepContext& context) : params_(params), context_(context) {}

  void schedule(const Schedule& schedule) {
    const double warm_up = schedule.warmup_steps();
    if (warm_up > static_cast<double>(context_.total_steps)) {
      return say("the run of {} steps ends within the warm-up of learning_rate, which takes {:g}", context_.total_steps, warm_up);
    }
    const auto first = static_cast<std::uint64_t>(std::ceil(warm_up));
    const std::string& name = params_.learning_rate.schedule;
    if (name == "constant" || first + 1 >= steps()) return;
    if (varies(schedule, first)) return falls(schedule, first);
    say("schedule = \"{}\" has no effect: the rate stays at {:g} in the {} steps of the run", name, schedule.rate(first),
        steps());
  }

  // A rate that is nearly 0 for half of the run: its steps were probably meant to be epochs.
  void falls(const Schedule& schedule, std::uint64_t first) {
    const double begin = schedule.rate(first);
    std::uint64_t step = first + 1;
    while (step < steps() && schedule.rate(step) >= kLeastRate * begin) ++step;
    if (step >= first + (steps() - first) / 2) return;
    for (std::uint64_t later = step; later < steps(); ++later) {
      if (schedule.rate(later) >= kLeastRate * begin) return;
    }
    say("the learning rate is below a thousandth of its first value from step {} of {} on: are steps of learning_rate meant to "
        "be epochs?",
        step, steps());
  }

  void lookahead() {
    const AverageParams::Lookahead& lookahead = params_.lookahead;
    if (lookahead.every == 0) return;
    if (static_cast<std::uint64_t>(lookahead.every) > steps()) {
      return say("lookahead has no effect: it blends every {} steps, and the run has {}", lookahead.every, steps());
    }
    if (lookahead.decay == 0) say("lookahead has no effect: with decay = 0 the slow weights are the fast ones");
    if (lookahead.every == 1) say("lookahead with every = 1 only makes each update smaller: blend less often");
  }

  // The first update copies the weights; blending begins with the second.
  void exponential(const AverageParams::Ema& ema) {
    const std::uint64_t times = steps() / static_cast<std::uint64_t>(ema.every);
    if (times < 2) {
      return say("ema has no effect: it begins with the weights after step {0} and blends {0} steps later, and the run has {1}",
                 ema.every, steps());
    }
    const double left = std::pow(ema.decay, static_cast<double>(times - 1));
    if (left <= kMaxOfFirst) return;
    say("ema with decay = {:g}: after the {} steps of the run {:.0f} % of the average still come from the weights after step {}; "
        "take a smaller decay",
        ema.decay, steps(), 100 * left, ema.every);
  }

  void averages() {
    const AverageParams::Ema& ema = params_.ema;
    if (ema.decay > 0) exponential(ema);
    if (!params_.average) return;
    const std::uint64_t places = places_until(steps(), *params_.average, context_);
    if (places > 1) return;
    say("average has no effect: a mean needs two points, and from start = {:g} the run has {}", params_.average->start, places);
  }

  void groups(const Groups* groups) {
    if (groups == nullptr) return;
    if (std::ranges::all_of(groups->rate_factors(0), [](double factor) { return factor == 0; }))
      return say("groups give all parameters rate_factor = 0, so that nothing is trained");
    for (const std::size_t group : groups->frozen()) say("group {} has no effect: none of its parameters is trained", group + 1);
    const double epochs = static_cast<double>(steps()) / context_.steps_per_epoch;
    for (std::size_t g = 0; g < params_.groups.size(); ++g) {
      const GroupParams& group = params_.groups[g];
      if (group.decay_factor != 1 && params_.weight_decay == 0) {
        say("group {}: decay_factor = {:g} has no effect: weight_decay is 0", g + 1, group.decay_factor);
      }
      if (group.until_epoch > 0 && group.until_epoch >= epochs) {
        say("group {}: until_epoch = {:g} has no effect: the run ends after {:g} epochs", g + 1, group.until_epoch, epochs);
      }
      const bool changes = group.optimizer || group.rate_factor != 1 || group.decay_factor != 1 || group.until_epoch > 0;
      if (changes || g + 1 < params_.groups.size()) continue;  // it may keep parameters from a later group
      say("group {} has no effect: it changes nothing, and no group follows it", g + 1);
    }
  }

  std::vector<std::string> take() { return std::move(texts_); }

 private:
  std::uint64_t steps() const { return context_.last_step; }  // up to the end

  // Schedules rise or fall slowly: sampled steps suffice.
  bool varies(const Schedule& schedule, std::uint64_t first) const {
    constexpr std::uint64_t kLooks = 100;
    const double rate = schedule.rate(first);
    const std::uint64_t last = steps() - 1, stride = std::max<std::uint64_t>((last - first) / kLooks, 1);
    bool varies = schedule.rate(last) != rate;
    for (std::uint64_t step = first; step < last && !varies; step += stride) varies = schedule.rate(step) != rate;
    return varies;
  }

  template <class... Args>
  void say(fmt::format_string<Args...> format, const Args&... args) {
    texts_.push_back(fmt::vformat(format, fmt::make_format_args(args...)));
  }

  const OptimizerStage::Params& params_;
  const StepContext& context_;
  std::vector<std::string> texts_;
};

// A sentence for each. These are not errors: the run may be a short trial of a long recipe, or have frozen layers. `groups`: null
// without a network.
std::vector<std::string> without_effect(const OptimizerStage::Params& params, const Schedule& schedule, const Groups* groups,
                                        const StepContext& context) {
  Search search(params, context);
  search.schedule(schedule);
  search.lookahead();
  search.averages();
  search.groups(groups);
  return search.take();
}

constexpr double kLeast = 1e-8;  // with gradients of 1, less changes no float32 weight of 0.1

// Ten times the usual rate. With optimizers that divide a gradient by its size, a weight moves by about the rate in each step.
struct Most {
  std::string_view optimizer;
  double rate;
  std::string_view usual;
};
constexpr std::array<Most, 9> kMax{{{"sgd", 10, "0.001 to 1"},
                                     {"lars", 100, "0.1 to 10"},
                                     {"muon", 10, "0.01 to 1"},
                                     {"adam", 0.05, "0.0001 to 0.01"},
                                     {"adamw", 0.05, "0.0001 to 0.01"},
                                     {"lion", 0.01, "0.00001 to 0.001"},
                                     {"rmsprop", 1, "0.0001 to 0.1"},
                                     {"adafactor", 1, "0.001 to 0.1"},
                                     {"lamb", 1, "0.001 to 0.1"}}};
constexpr Most kAnyOptimizer{"", 1000, "0.00001 to 10"};

// Schedules rise and fall slowly: sampled steps suffice.
double largest_rate(const Schedule& schedule, std::uint64_t steps) {
  constexpr std::uint64_t kLooks = 1000;
  double largest = 0;
  const std::uint64_t stride = std::max<std::uint64_t>(steps / kLooks, 1);
  for (std::uint64_t step = 0; step < steps; step += stride) largest = std::max(largest, schedule.rate(step));
  return largest;
}

// A warning for a run of this many steps; "" if the rates are common. Optimizers unknown here may have any rate up to 1000.
std::string doubtful_rate(std::string_view optimizer, const Schedule& schedule, std::uint64_t steps) {
  const auto* const known = std::ranges::find(kMax, optimizer, &Most::optimizer);
  const Most& most = known == kMax.end() ? kAnyOptimizer : *known;
  const double rate = largest_rate(schedule, steps);
  if (steps == 0 || (rate >= kLeast && rate <= most.rate)) return {};
  if (rate == 0) return "the learning rate is 0 in all steps, so that nothing is trained";
  return fmt::format(
      "a learning rate of {:g} is orders of magnitude too {} for '{}', where {} is usual; --find-rate proposes one", rate,
      rate < kLeast ? "small" : "large", optimizer, most.usual);
}

// The same for a weight decay that removes a tenth or more of each weight per step.
std::string doubtful_decay(double weight_decay, const Schedule& schedule, std::uint64_t steps) {
  const double taken = weight_decay * largest_rate(schedule, steps);
  if (taken < 0.1) return {};
  constexpr double kExplodes = 2;  // a weight changes its sign and grows
  return fmt::format("learning rate x weight_decay = {:g}: {}. A weight_decay of 0.00001 to 0.1 is usual, found {:g}", taken,
                     taken > kExplodes ? "weights explode" : "each step removes that share of every weight", weight_decay);
}

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
  const std::string rate_doubt = doubtful_rate(optimizer_name(params_, context_), *schedule_, context_.last_step);
  const std::string decay_doubt = doubtful_decay(params_.weight_decay, *schedule_, context_.last_step);
  for (const std::string& text : {rate_doubt, decay_doubt}) {
    if (!text.empty()) context_.run->warn(context_.place() + ": " + text);
  }
  for (const std::string& text : without_effect(params_, *schedule_, groups_ ? &*groups_ : nullptr, context_)) {
    context.run->warn(context_.place() + ": " + text);
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
