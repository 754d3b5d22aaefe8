#include "testkit/recording_order.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::testkit {

std::string Operation::text() const {
  std::string where;
  if (replica >= 0) where = fmt::format("replica {}", replica);
  if (bucket >= 0) where += fmt::format("{}bucket {}", where.empty() ? "" : ", ", bucket);
  return fmt::format("{} of step {}{}", name, step, where.empty() ? "" : " (" + where + ")");
}

std::string Violation::text() const {
  return fmt::format("{}: {} uses the {} without having waited for {}", kind, operation.text(), region, before.text());
}

void join(Clock& clock, const Clock& other) {
  clock.resize(std::max(clock.size(), other.size()), 0);
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

int OrderChecker::add_stream() {
  const std::scoped_lock lock(mutex_);
  streams_.emplace_back();
  return static_cast<int>(streams_.size()) - 1;
}

void OrderChecker::wait(int stream, const Clock& clock) {
  const std::scoped_lock lock(mutex_);
  join(streams_[static_cast<std::size_t>(stream)], clock);
}

void OrderChecker::seen_by_host(const Clock& clock) {
  const std::scoped_lock lock(mutex_);
  join(host_, clock);
}

Clock OrderChecker::submit(int stream, const Operation& operation, const std::vector<Access>& accesses) {
  const std::scoped_lock lock(mutex_);
  const auto index = static_cast<std::size_t>(stream);
  Clock& clock = streams_[index];
  join(clock, host_);
  clock.resize(std::max(clock.size(), index + 1), 0);
  const std::uint64_t number = ++clock[index];
  for (const Access& access : accesses) check(regions_[access.region], {access, operation, stream, number}, clock);
  return clock;
}

void OrderChecker::check(Region& region, const Entry& entry, const Clock& clock) {
  const auto overlaps = [&entry](const Access& other) {
    return other.begin < entry.access.end && entry.access.begin < other.end;
  };
  for (const Entry& earlier : region.entries) {
    if (!overlaps(earlier.access) || (!earlier.access.write && !entry.access.write)) continue;
    const auto stream = static_cast<std::size_t>(earlier.stream);
    if (stream < clock.size() && clock[stream] >= earlier.number) continue;
    violations_.push_back({"missing wait", entry.operation, earlier.operation, entry.access.region});
  }
  // Waiting for this operation covers all that precede it.
  std::erase_if(region.entries, [&entry](const Entry& earlier) {
    const bool inside = earlier.access.begin >= entry.access.begin && earlier.access.end <= entry.access.end;
    return inside && (entry.access.write || (!earlier.access.write && earlier.stream == entry.stream));
  });
  region.entries.push_back(entry);
  if (entry.access.write) region.step = entry.operation.step;
}

Clock OrderChecker::now(int stream) const {
  const std::scoped_lock lock(mutex_);
  return streams_[static_cast<std::size_t>(stream)];
}

std::uint64_t OrderChecker::step_of(const std::string& region) const {
  const std::scoped_lock lock(mutex_);
  const auto found = regions_.find(region);
  return found == regions_.end() ? 0 : found->second.step;
}

void OrderChecker::report(Violation violation) {
  const std::scoped_lock lock(mutex_);
  violations_.push_back(std::move(violation));
}

std::vector<Violation> OrderChecker::violations() const {
  const std::scoped_lock lock(mutex_);
  return violations_;
}

}  // namespace millrace::testkit
