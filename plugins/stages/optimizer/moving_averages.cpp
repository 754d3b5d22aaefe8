#include "moving_averages.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "millrace/backend/backend.h"
#include "millrace/error.h"

namespace millrace {
namespace {

// Names of the copies: lookahead's, and that of ema or average.
constexpr std::string_view kSlow = "slow", kAverage = "average";

}  // namespace

void AverageParams::describe_lookahead(ParamSet<Lookahead>& members) {
  members.add("every", &Lookahead::every).range(0).required().unit("steps").text("blending interval; 0: no lookahead");
  members.add("decay", &Lookahead::decay).range(0, 1).text("decay of the slow weights per step at the run's end");
  members.add("power", &Lookahead::power).range(0).text("how late in the run the slow weights slow down");
}

void AverageParams::describe_ema(ParamSet<Ema>& members) {
  members.add("decay", &Ema::decay).range(0, 0.999999).required().text("decay rate of the average; 0: no average");
  members.add("every", &Ema::every).range(1).unit("steps").text("blending interval");
}

void AverageParams::describe_mean(ParamSet<Mean>& members) {
  members.add("start", &Mean::start).range(0, 1).text("share of the run before averaging starts");
  members.add("every", &Mean::every)
      .range(1)
      .unit("steps")
      .choices({"epoch"})
      .text("interval between points; \"epoch\": the end of each epoch");
}

void AverageParams::request(CompileRequest& request) const {
  if (lookahead.every > 0) request.copies.emplace_back(kSlow);
  if (ema.decay > 0 && average) {
    fail(ErrorKind::usage, "ema and average both provide the weights that are validated and saved: choose one");
  }
  if (ema.decay > 0 || average) {
    request.copies.emplace_back(kAverage);
    request.evaluated = kAverage;
  }
}

std::uint64_t places_until(std::uint64_t done, const AverageParams::Mean& mean, const StepContext& context) {
  const auto ends = [&](std::uint64_t steps) {
    if (mean.every > 0) return steps / static_cast<std::uint64_t>(mean.every);
    // An epoch may end within a step: the margin includes that step.
    return static_cast<std::uint64_t>(std::floor(static_cast<double>(steps) / context.steps_per_epoch + 1e-9));
  };
  const auto first = static_cast<std::uint64_t>(std::ceil(mean.start * static_cast<double>(context.total_steps)));
  if (done < first) return 0;
  return ends(done) - (first > 0 ? ends(first - 1) : 0);
}

void MovingAverages::begin() {
  if (params_.lookahead.every > 0) replica().lerp_into(kSlow, 0, true);  // the slow weights start equal to the weights
}

void MovingAverages::follow(std::uint64_t done, std::uint64_t here) {
  if (params_.lookahead.every > 0) blend_slow_weights(done, here);
  const AverageParams::Ema& ema = params_.ema;
  if (ema.decay > 0 && done % static_cast<std::uint64_t>(ema.every) == 0) replica().lerp_into(kAverage, ema.decay, false);
  if (!params_.average) return;
  if (places_until(done, *params_.average, context_) == places_until(done - 1, *params_.average, context_)) return;
  const auto places = static_cast<double>(places_++);
  replica().lerp_into(kAverage, places / (places + 1), false);
}

void MovingAverages::blend_slow_weights(std::uint64_t done, std::uint64_t here) {
  const AverageParams::Lookahead& lookahead = params_.lookahead;
  const auto every = static_cast<std::uint64_t>(lookahead.every);
  if (done % every == 0) {
    const double progress = static_cast<double>(done) / static_cast<double>(context_.total_steps);
    replica().lerp_into(kSlow, std::pow(lookahead.decay, lookahead.every) * std::pow(progress, lookahead.power), true);
  }
  if (done != context_.last_step) return;
  // Without a blend the slow weights are the initial ones, and the training would be lost.
  const std::uint64_t begin = done - std::min(here, done);
  if (done / every > begin / every) replica().lerp_into(kSlow, 1, true);
}

}  // namespace millrace
