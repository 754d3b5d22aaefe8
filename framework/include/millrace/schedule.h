// Learning rates over a run. Pure: a schedule is a function of the step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/params.h"

namespace millrace {

// `learning_rate = { initial = 0.1, schedule = "piecewise", drop_factor = 0.1, drop_epochs = 12, warmup_epochs = 1 }`
//
// With t the step from 0, T the steps of the run, S the steps of an epoch, W = warmup_epochs * S:
//
//   constant     initial
//   piecewise    initial * drop_factor ^ floor(t / (S * drop_epochs))
//   cosine       initial * (f + (1 - f) * (1 + cos(pi * q)) / 2),    f = final_factor, q = (t - W) / (T - W)
//   polynomial   initial * (f + (1 - f) * (1 - q) ^ power)
//   triangular   initial * (start_factor -> 1 for t = 0 ... peak * T, then 1 -> final_factor for t = peak * T ... T, linearly)
//
// For t < W the rate rises linearly from initial * start_factor at t = 0 to what the schedule says at t = W (gradual warm-up,
// arXiv 1706.02677). final_factor belongs to t = T, one past the last step.
struct ScheduleParams {
  double initial = 0.01;
  std::string schedule = "constant";
  double drop_factor = 0.1;
  double drop_epochs = 10;
  double power = 1;
  double final_factor = 0;
  double start_factor = 0;
  double peak = 0.5;  // share of the run
  double warmup_epochs = 0;

  static void describe(ParamSet<ScheduleParams>& set);
};

// Thread-safe.
class Schedule {
 public:
  Schedule(const ScheduleParams& params, double steps_per_epoch, std::uint64_t total_steps);
  double rate(std::uint64_t step) const;

 private:
  double own(double step) const;  // without warm-up

  ScheduleParams params_;
  double steps_per_epoch_;
  double total_steps_;
  double warmup_steps_;
};

}  // namespace millrace
