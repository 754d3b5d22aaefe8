// Learning rates over a run. Pure: a schedule is a function of the step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/params.h"

namespace millrace {

// `learning_rate = { initial = 0.1, schedule = "piecewise", drop_factor = 0.1, drop_epochs = 12, warmup_epochs = 1 }`
struct ScheduleParams {
  double initial = 0.01;
  std::string schedule = "constant";  // constant, piecewise, cosine, polynomial, triangular
  double drop_factor = 0.1;           // piecewise: multiplied by this ...
  double drop_epochs = 10;            // ... after every so many epochs
  double power = 1;                   // polynomial
  double final_factor = 0;            // cosine, polynomial, triangular: the last step's rate as a share of initial
  double start_factor = 0;            // triangular and warm-up: the first step's rate as a share of initial
  double peak = 0.5;                  // triangular: where in the run (0 to 1) the rate reaches initial
  double warmup_epochs = 0;           // rises linearly from start_factor to the schedule's own value

  static void describe(ParamSet<ScheduleParams>& set);
};

class Schedule {
 public:
  Schedule(const ScheduleParams& params, double steps_per_epoch, std::uint64_t total_steps);
  double rate(std::uint64_t step) const;  // step from 0

 private:
  ScheduleParams params_;
  double steps_per_epoch_;
  double total_steps_;
};

}  // namespace millrace
