#include "prepare/step_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "millrace/error.h"

namespace millrace {

StepRange choose_steps(const Pipeline& pipeline, const MainGraphSteps& main, const RequestedSteps& asked) {
  const std::uint64_t epoch = asked.from.epoch, step = asked.step_with_other_batches.value_or(asked.from.step);
  const double epochs = !asked.is_named || main.trains ? pipeline.run.epochs : static_cast<double>(epoch + 1);
  StepRange range{.first = epoch * main.an_epoch + step,
                  .total = static_cast<std::uint64_t>(std::ceil(epochs * static_cast<double>(main.an_epoch) - 1e-9))};
  if (!asked.step_with_other_batches && step > 0 && step >= main.an_epoch) {
    fail(ErrorKind::usage, "{}: the run cannot begin with step {} of an epoch: [{}] has {}", pipeline.title(), step + 1,
         main.name, main.an_epoch);
  }
  const bool is_at_end = asked.is_resumed && range.first == range.total;
  if (range.first > 0 && range.first >= range.total && !is_at_end) {
    fail(ErrorKind::usage, "{}: the run cannot begin with step {} of epoch {}: it ends after {:g} epochs, {} steps",
         pipeline.place_of("run.epochs"), step + 1, epoch + 1, epochs, range.total);
  }
  range.end = asked.most > 0 ? std::min(range.total, range.first + asked.most) : range.total;
  const std::uint64_t most = pipeline.stop.max_steps;
  if (most == 0 || !main.trains) return range;
  if (range.first >= most && !(asked.is_resumed && range.first == most)) {
    fail(ErrorKind::usage, "{}: the run cannot begin with step {} of epoch {}: stop.max_steps = {}",
         pipeline.place_of("stop.max_steps"), step + 1, epoch + 1, most);
  }
  range.end = std::min(range.end, most);
  return range;
}

}  // namespace millrace
