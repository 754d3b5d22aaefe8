#include "report/step_log.h"

#include <algorithm>
#include <utility>

namespace millrace {

void StepLog::report(std::uint64_t step, Report report) {
  const Lock lock(mutex_);
  Pending& pending = pending_[step];
  pending.reported = true;
  pending.report.scalars.merge(report.scalars);
  report.scalars = std::move(pending.report.scalars);
  pending.report = std::move(report);
  tell_if_whole(step);
}

void StepLog::scalar(std::uint64_t step, std::string_view name, double value) {
  const Lock lock(mutex_);
  Pending& pending = pending_[step];
  pending.report.scalars[std::string(name)] = value;
  if (pending.promised.erase(std::string(name)) > 0) tell_if_whole(step);
}

void StepLog::promise(std::uint64_t step, std::string_view name) {
  const Lock lock(mutex_);
  pending_[step].promised.emplace(name);
}

void StepLog::done(std::uint64_t step) {
  const Lock lock(mutex_);
  pending_[step].done = true;
  tell_if_whole(step);
}

bool StepLog::has_told_until(std::uint64_t step) const {
  const Lock lock(mutex_);
  return pending_.empty() || pending_.begin()->first >= step;
}

void StepLog::times_from_now() {
  const Lock lock(mutex_);
  last_step_seconds_ = observers_.elapsed_seconds();
}

void StepLog::tell_if_whole(std::uint64_t step) {
  const auto found = pending_.find(step);
  const Pending& pending = found->second;
  if ((setting_.are_reported && !pending.reported) || !pending.done || !pending.promised.empty()) return;
  const double now = observers_.elapsed_seconds();
  if (step % setting_.every == 0) {
    StepEvent event;
    event.graph = setting_.graph;
    event.epoch = pending.reported ? pending.report.epoch + 1 : 0;
    event.step = step + 1;
    event.reported = pending.reported;
    event.figures = pending.report.figures;
    event.scalars.assign(pending.report.scalars.begin(), pending.report.scalars.end());
    event.images_per_second = pending.report.samples / std::max(now - last_step_seconds_, 1e-9);
    observers_.tell(std::move(event));
  }
  last_step_seconds_ = now;
  pending_.erase(found);
}

}  // namespace millrace
