// Copies that follow the weights: lookahead's slow weights, and the average that is validated and saved. Backends blend them in
// Replica::lerp_into().
#pragma once

#include <cstdint>
#include <optional>

#include "millrace/stage.h"

namespace millrace {

// Lookahead (arXiv 1907.08610, with the rising decay of arXiv 2404.00498): after every `every` steps, with t of T steps done,
//   d = decay ^ every * (t / T) ^ power;  slow = d * slow + (1 - d) * w;  w = slow
// and, if there was a blend before, once more with d = 1 after the last step, so that the run ends with the slow weights.
//
// ema: after every `every` steps, average = decay * average + (1 - decay) * w, over weights and running statistics; it begins
// with their values. The average is validated and saved.
//
// average: the plain mean of the weights at the end of each epoch, or after every `every` steps, from the fraction `start` of the
// run on (stochastic weight averaging, arXiv 1803.05407): average = n / (n + 1) * average + w / (n + 1) for the n-th such point.
// Running statistics are averaged like weights. Validation uses the average from its first point on, and it is saved.
struct AverageParams {
  struct Lookahead {
    std::int64_t every = 0;
    double decay = 0.95;
    double power = 3;
  };
  struct Ema {
    double decay = 0;
    std::int64_t every = 1;
  };
  struct Mean {
    double start = 0.75;
    std::int64_t every = 0;  // in steps; 0: epochs
  };
  Lookahead lookahead;
  Ema ema;
  std::optional<Mean> average;

  // Params derives from this.
  template <class Params>
  static void describe(ParamSet<Params>& set) {
    Lookahead Params::*const slow = &Params::lookahead;
    Ema Params::*const moving = &Params::ema;
    std::optional<Mean> Params::*const mean = &Params::average;
    set.add_table("lookahead", slow, &describe_lookahead).text("slow weights, which follow and replace the fast ones");
    set.add_table("ema", moving, &describe_ema)
        .text("exponential moving average of the weights, used in validation and saved in their place");
    set.add_table("average", mean, &describe_mean)
        .text("mean of the weights at several points of the run's end (SWA), used in validation and saved in their place");
  }
  void request(CompileRequest& request) const;  // throws Error(usage) for two averages

 private:
  static void describe_lookahead(ParamSet<Lookahead>& members);
  static void describe_ema(ParamSet<Ema>& members);
  static void describe_mean(ParamSet<Mean>& members);
};

// Number of points of `mean` in the first `done` steps.
std::uint64_t places_until(std::uint64_t done, const AverageParams::Mean& mean, const StepContext& context);

// The copies of one replica. Not thread-safe.
class MovingAverages {
 public:
  MovingAverages(const AverageParams& params, const StepContext& context) : params_(params), context_(context) {}

  void begin();  // before a run's first step
  // Called after `done` steps, `here` of them in this run.
  void follow(std::uint64_t done, std::uint64_t here);

  std::uint64_t places() const { return places_; }  // number of weights averaged in `average`
  void restore(std::uint64_t places) { places_ = places; }

 private:
  void blend_slow_weights(std::uint64_t done, std::uint64_t here);
  Replica& replica() const { return *context_.replicas[static_cast<std::size_t>(context_.replica)]; }

  const AverageParams params_;
  const StepContext& context_;
  std::uint64_t places_ = 0;
};

}  // namespace millrace
