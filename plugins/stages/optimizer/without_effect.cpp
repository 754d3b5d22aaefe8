#include "without_effect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace millrace {
namespace {

constexpr double kMostOfFirst = 0.2;  // share of the initial weights in a useful average
constexpr double kLeastRate = 1e-3;   // relative to the first one

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
        "be "
        "epochs?",
        step, steps());
  }

  void lookahead() {
    const AverageParams::Lookahead& lookahead = params_.lookahead;
    if (lookahead.every == 0) return;
    if (static_cast<std::uint64_t>(lookahead.every) > steps()) {
      return say("lookahead has no effect: it blends every {} steps, and the run has {}", lookahead.every, steps());
    }
    if (lookahead.decay == 0) say("lookahead has no effect: with decay = 0 the slow weights are the fast ones");
    if (lookahead.every == 1) say("lookahead with every = 1 makes each update smaller, and does no more: blend less often");
  }

  // The first update copies the weights; blending begins with the second.
  void exponential(const AverageParams::Ema& ema) {
    const std::uint64_t times = steps() / static_cast<std::uint64_t>(ema.every);
    if (times < 2) {
      return say("ema has no effect: it begins with the weights after step {0} and blends {0} steps later, and the run has {1}",
                 ema.every, steps());
    }
    const double left = std::pow(ema.decay, static_cast<double>(times - 1));
    if (left <= kMostOfFirst) return;
    say("ema with decay = {:g}: after the {} steps of the run {:.0f} % of the average are still the weights after step {}; take "
        "a smaller decay",
        ema.decay, steps(), 100 * left, ema.every);
  }

  void averages() {
    const AverageParams::Ema& ema = params_.ema;
    if (ema.decay > 0) exponential(ema);
    if (!params_.average) return;
    const std::uint64_t places = places_until(steps(), *params_.average, context_);
    if (places > 1) return;
    say("average has no effect: a mean takes two of its places, and from start = {:g} on the run has {}", params_.average->start,
        places);
  }

  void groups(const Groups* groups) {
    if (groups == nullptr) return;
    if (std::ranges::all_of(groups->rate_factors(0), [](double factor) { return factor == 0; }))
      return say("groups give all parameters rate_factor = 0, so that nothing is trained");
    for (const std::size_t group : groups->frozen())
      say("number {} of groups has no effect: none of its parameters is trained", group + 1);
    const double epochs = static_cast<double>(steps()) / context_.steps_per_epoch;
    for (std::size_t g = 0; g < params_.groups.size(); ++g) {
      const GroupParams& group = params_.groups[g];
      if (group.decay_factor != 1 && params_.weight_decay == 0) {
        say("number {} of groups: decay_factor = {:g} has no effect: weight_decay is 0", g + 1, group.decay_factor);
      }
      if (group.until_epoch > 0 && group.until_epoch >= epochs) {
        say("number {} of groups: until_epoch = {:g} has no effect: the run ends after {:g} epochs", g + 1, group.until_epoch,
            epochs);
      }
      const bool changes = group.optimizer || group.rate_factor != 1 || group.decay_factor != 1 || group.until_epoch > 0;
      if (changes || g + 1 < params_.groups.size()) continue;  // it may keep parameters from a later group
      say("number {} of groups has no effect: it changes nothing, and there is no group after it", g + 1);
    }
  }

  std::vector<std::string> take() { return std::move(said_); }

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
    said_.push_back(fmt::vformat(format, fmt::make_format_args(args...)));
  }

  const OptimizerStage::Params& params_;
  const StepContext& context_;
  std::vector<std::string> said_;
};

}  // namespace

std::vector<std::string> without_effect(const OptimizerStage::Params& params, const Schedule& schedule, const Groups* groups,
                                        const StepContext& context) {
  Search search(params, context);
  search.schedule(schedule);
  search.lookahead();
  search.averages();
  search.groups(groups);
  return search.take();
}

}  // namespace millrace
