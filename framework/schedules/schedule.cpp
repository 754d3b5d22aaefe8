#include "millrace/util/schedule.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numbers>

#include "millrace/error.h"

namespace millrace {

void ScheduleParams::describe(ParamSet<ScheduleParams>& set) {
  using P = ScheduleParams;
  set.add("initial", &P::initial).range(0).text("base rate, which all factors multiply");
  set.add("schedule", &P::schedule)
      .choices({"constant", "piecewise", "exponential", "cosine", "polynomial", "triangular", "one_cycle"})
      .hint("plateau", "that is a table of its own, [plateau], whatever the schedule")
      .text("schedule of the rate; [plateau] also lowers it when a metric stops improving");
  set.add("drop_factor", &P::drop_factor)
      .range(0)
      .text("piecewise, exponential: rate factor every `drop_epochs` or `drop_steps`, or at each of `drops`")
      .only_with("schedule", {"piecewise", "exponential"});
  set.add("drop_epochs", &P::drop_epochs)
      .range(1e-6)
      .unit("epochs")
      .text(
          "piecewise: interval between drops; exponential: time to change the rate by `drop_factor`; default: 10, without "
          "`drop_steps` and `drops`")
      .alternative("drops")
      .only_with("schedule", {"piecewise", "exponential"});
  set.add("drop_steps", &P::drop_steps)
      .range(1)
      .unit("steps")
      .text("`drop_epochs` in steps")
      .alternative("drops")
      .only_with("schedule", {"piecewise", "exponential"});
  set.add("drops", &P::drops)
      .range(0)
      .unit("epochs")
      .text("piecewise: times of drops, such as [30, 60, 80]")
      .alternative("drops")
      .only_with("schedule", {"piecewise"});
  set.add("power", &P::power).range(0).text("polynomial: its degree").only_with("schedule", {"polynomial"});
  set.add("final_factor", &P::final_factor)
      .range(0)
      .text("cosine, polynomial, triangular, one_cycle: share of `initial` at the run's end")
      .only_with("schedule", {"cosine", "polynomial", "triangular", "one_cycle"});
  set.add("start_factor", &P::start_factor)
      .range(0)
      .text("triangular, one_cycle and warm-up: share of `initial` at the first step")
      .only_with("schedule", {"triangular", "one_cycle"})
      .only_with("warmup_epochs")
      .only_with("warmup_steps");
  set.add("peak", &P::peak)
      .range(0, 1)
      .text("triangular, one_cycle: share of the run after which the rate peaks at `initial`")
      .only_with("schedule", {"triangular", "one_cycle"});
  set.add("warmup_epochs", &P::warmup_epochs)
      .range(0)
      .unit("epochs")
      .text("warm-up from `initial * start_factor`; cosine and polynomial start after it; default: 0")
      .alternative("warm-up");
  set.add("warmup_steps", &P::warmup_steps).range(0).unit("steps").text("`warmup_epochs` in steps").alternative("warm-up");
  set.add("warmup", &P::warmup)
      .choices({"gradual", "constant"})
      .text("rise linearly to the schedule's rate, or stay at `initial * start_factor` until then")
      .only_with("warmup_epochs")
      .only_with("warmup_steps");
  set.add("cycle_momentum", &P::cycle_momentum)
      .text(
          "triangular, one_cycle: optimizer momentum (beta1 of Adam's family) moves opposite to the rate, between `max_momentum` "
          "and `base_momentum`")
      .only_with("schedule", {"triangular", "one_cycle"});
  set.add("base_momentum", &P::base_momentum)
      .range(0, 1)
      .text("`cycle_momentum`: at the peak rate; above 0")
      .only_with("cycle_momentum");
  set.add("max_momentum", &P::max_momentum)
      .range(0, 1)
      .text("`cycle_momentum`: at the first and last step; below 1")
      .only_with("cycle_momentum");
}

namespace {

constexpr double kDropEpochs = 10;

void check(const ScheduleParams& params) {
  ParamSet<ScheduleParams> set;
  ScheduleParams::describe(set);
  require_one_alternative(set, params, "'learning_rate'");
  const bool warms_up = params.warmup_epochs.value_or(0) > 0 || params.warmup_steps.value_or(0) > 0;
  if (warms_up && params.warmup == "constant" && params.start_factor == 0) {
    fail(ErrorKind::usage,
         "warmup = \"constant\" of learning_rate needs a start_factor above 0: the rate would be 0 in the warm-up");
  }
  if (params.cycle_momentum && (params.base_momentum <= 0 || params.max_momentum >= 1)) {
    fail(ErrorKind::usage, "momentum of learning_rate must stay above 0 and below 1, and cycles between {:g} and {:g}",
         params.base_momentum, params.max_momentum);
  }
  if (params.cycle_momentum && params.base_momentum > params.max_momentum) {
    fail(ErrorKind::usage, "base_momentum = {:g} of learning_rate is above max_momentum = {:g}", params.base_momentum,
         params.max_momentum);
  }
  const auto late = std::ranges::adjacent_find(params.drops, std::greater_equal());
  if (late != params.drops.end()) {
    fail(ErrorKind::usage, "drops of learning_rate must rise, but {} comes after {}", *std::next(late), *late);
  }
}

double in_steps(const std::optional<double>& epochs, const std::optional<std::int64_t>& steps, double steps_per_epoch,
                double otherwise) {
  return steps ? static_cast<double>(*steps) : epochs.value_or(otherwise) * steps_per_epoch;
}

}  // namespace

Schedule::Schedule(const ScheduleParams& params, double steps_per_epoch, std::uint64_t total_steps)
    : params_(params),
      steps_per_epoch_(std::max(steps_per_epoch, 1e-9)),
      total_steps_(static_cast<double>(std::max<std::uint64_t>(total_steps, 1))),
      warmup_steps_(in_steps(params.warmup_epochs, params.warmup_steps, steps_per_epoch_, 0)),
      drop_steps_(in_steps(params.drop_epochs, params.drop_steps, steps_per_epoch_, kDropEpochs)) {
  check(params_);
}

double Schedule::rate(std::uint64_t step) const {
  const auto t = static_cast<double>(step);
  if (t >= warmup_steps_) return own(t);
  const double start = params_.initial * params_.start_factor;
  if (params_.warmup == "constant") return start;
  return start + (own(warmup_steps_) - start) * t / warmup_steps_;
}

double Schedule::own(double t) const {
  const ScheduleParams& p = params_;
  // Progress after warm-up, for schedules that end with the run.
  const double q = std::clamp((t - warmup_steps_) / std::max(total_steps_ - warmup_steps_, 1e-9), 0.0, 1.0);
  double factor = 1;
  if (p.schedule == "piecewise") {
    factor = std::pow(p.drop_factor, drops_until(t));
  } else if (p.schedule == "exponential") {
    factor = std::pow(p.drop_factor, t / drop_steps_);
  } else if (p.schedule == "cosine") {
    factor = p.final_factor + (1 - p.final_factor) * (1 + std::cos(std::numbers::pi * q)) / 2;
  } else if (p.schedule == "polynomial") {
    factor = p.final_factor + (1 - p.final_factor) * std::pow(1 - q, p.power);
  } else if (p.schedule == "triangular" || p.schedule == "one_cycle") {
    factor = cycle(t, p.start_factor, 1, p.final_factor);
  }
  return p.initial * factor;
}

// The margin makes a drop happen at its step although steps / epochs does not divide exactly.
double Schedule::drops_until(double t) const {
  constexpr double kMargin = 1e-9;
  if (params_.drops.empty()) return std::floor(t / drop_steps_ + kMargin);
  const double epoch = t / steps_per_epoch_ * (1 + kMargin);
  return static_cast<double>(std::ranges::upper_bound(params_.drops, epoch) - params_.drops.begin());
}

std::optional<double> Schedule::momentum(std::uint64_t step) const {
  if (!params_.cycle_momentum) return std::nullopt;
  return cycle(static_cast<double>(step), params_.max_momentum, params_.base_momentum, params_.max_momentum);
}

double Schedule::cycle(double t, double first, double at_peak, double last) const {
  const double peak = params_.peak;
  if (params_.schedule == "triangular") {
    const double x = std::min(t / total_steps_, 1.0);
    return x < peak ? std::lerp(first, at_peak, x / peak) : std::lerp(at_peak, last, peak < 1 ? (x - peak) / (1 - peak) : 0.0);
  }
  const auto along_cosine = [](double from, double to, double share) {
    return to + (from - to) * (1 + std::cos(std::numbers::pi * std::clamp(share, 0.0, 1.0))) / 2;
  };
  const double top = peak * total_steps_ - 1, end = total_steps_ - 1;
  if (t < top) return along_cosine(first, at_peak, t / top);
  return along_cosine(at_peak, last, end > top ? (t - top) / (end - top) : 0);
}

}  // namespace millrace
