// Learning rates over a run. Pure: a schedule is a function of the step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/params.h"

namespace millrace {

// `learning_rate = { initial = 0.1, schedule = "piecewise", drop_factor = 0.1, drop_epochs = 12, warmup_epochs = 1 }`
//
// With t the step from 0, T the steps of the run, S the steps of an epoch, W = warmup_steps or warmup_epochs * S, D = drop_steps
// or drop_epochs * S:
//
//   constant     initial
//   piecewise    initial * drop_factor ^ floor(t / D), or with `drops` initial * drop_factor ^ (how many of drops * S are <= t)
//   exponential  initial * drop_factor ^ (t / D)
//   cosine       initial * (f + (1 - f) * (1 + cos(pi * q)) / 2),    f = final_factor, q = (t - W) / (T - W)
//   polynomial   initial * (f + (1 - f) * (1 - q) ^ power)
//   triangular   initial * (start_factor -> 1 for t = 0 ... peak * T, then 1 -> final_factor for t = peak * T ... T, linearly)
//   one_cycle    initial * (start_factor -> 1 for t = 0 ... peak * T - 1, then 1 -> final_factor up to t = T - 1), each along
//                half a cosine (Smith and Topin, arXiv 1708.07120)
//
// For t < W the rate rises linearly from initial * start_factor at t = 0 to the schedule's value at t = W (warmup = "gradual"),
// or stays at initial * start_factor (warmup = "constant"); both follow arXiv 1706.02677. final_factor applies at t = T, one past
// the last step; for one_cycle, at the last step.
//
// With cycle_momentum, triangular and one_cycle also set the optimizers' momentum: from max_momentum at the first step down to
// base_momentum at the peak of the rate and up to max_momentum again, along the rate's curves.
//
// They match PyTorch's StepLR and MultiStepLR (piecewise), ExponentialLR, CosineAnnealingLR and PolynomialLR; OneCycleLR with
// start_factor = 1 / div_factor and final_factor = 1 / (div_factor * final_div_factor), whose defaults are 0.04 and 4e-6 with
// peak = 0.3; and for warm-up LinearLR and ConstantLR. OneCycleLR cycles the momentum by default; here cycle_momentum enables it.
struct ScheduleParams {
  double initial = 0.01;
  std::string schedule = "constant";
  double drop_factor = 0.1;
  std::optional<double> drop_epochs = {};  // default 10, if neither this nor one of the next two is set
  std::optional<std::int64_t> drop_steps = {};
  std::vector<double> drops = {};  // epochs, ascending
  double power = 1;
  double final_factor = 0;
  double start_factor = 0;
  double peak = 0.5;                         // share of the run
  std::optional<double> warmup_epochs = {};  // no warm-up if neither this nor the next is set
  std::optional<std::int64_t> warmup_steps = {};
  std::string warmup = "gradual";
  bool cycle_momentum = false;
  double base_momentum = 0.85, max_momentum = 0.95;

  static void describe(ParamSet<ScheduleParams>& set);
};

// Thread-safe. Throws Error(usage) for keys that exclude each other.
class Schedule {
 public:
  Schedule(const ScheduleParams& params, double steps_per_epoch, std::uint64_t total_steps);
  double rate(std::uint64_t step) const;
  std::optional<double> momentum(std::uint64_t step) const;  // empty: the optimizer's own
  double warmup_steps() const { return warmup_steps_; }      // 0: no warm-up

 private:
  double own(double step) const;          // without warm-up
  double drops_until(double step) const;  // for a piecewise rate
  // The curve of triangular and one_cycle: from the first step to the peak, and from there to the end.
  double cycle(double step, double first, double at_peak, double last) const;

  ScheduleParams params_;
  double steps_per_epoch_;
  double total_steps_;
  double warmup_steps_;
  double drop_steps_;  // between drops, without `drops`
};

}  // namespace millrace
