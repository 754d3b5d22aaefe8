#include "report/bad_samples.h"

#include <algorithm>
#include <utility>

#include "base/characters.h"

namespace millrace {

BadSampleEvent bad_sample_event(std::string_view graph, const Sample& sample, std::string_view action) {
  BadSampleEvent event;
  event.graph = graph;
  event.place = sample.place();
  event.path = name_text(sample.url);
  event.member = name_text(sample.member);
  event.offset = sample.offset;
  event.stage = sample.fault ? sample.fault->stage : "";
  event.cause = sample.fault ? sample.fault->cause : "";
  event.action = action;
  event.epoch = sample.key.epoch + 1;
  event.position = sample.key.position;
  event.index = sample.key.index;
  event.attempt = sample.key.attempt;
  return event;
}

void BadSamples::add(BadSampleEvent event) {
  const Lock lock(mutex_);
  const SavedState::BadSample sample{event.graph, event.epoch, event.position, event.attempt};
  ahead_.insert(sample);
  if (event.action == "skipped") ++skipped_[event.graph];
  if (told_.erase(sample) > 0) return;
  event.count = ++count_;
  observers_.tell(std::move(event));
}

std::uint64_t BadSamples::count() const {
  const Lock lock(mutex_);
  return count_;
}

std::uint64_t BadSamples::skipped(std::string_view graph) const {
  const Lock lock(mutex_);
  const auto found = skipped_.find(graph);
  return found == skipped_.end() ? 0 : found->second;
}

void BadSamples::hold(BadSampleEvent event) {
  const Lock lock(mutex_);
  held_.push_back(std::move(event));
}

void BadSamples::forget_held() {
  const Lock lock(mutex_);
  held_.clear();
}

void BadSamples::tell_held() {
  std::vector<BadSampleEvent> events;
  {
    const Lock lock(mutex_);
    events.swap(held_);
  }
  for (BadSampleEvent& event : events) add(std::move(event));
}

std::uint64_t BadSamples::held(std::string_view graph) const {
  const Lock lock(mutex_);
  return static_cast<std::uint64_t>(std::ranges::count(held_, graph, &BadSampleEvent::graph));
}

void BadSamples::save(SavedState& state) const {
  const Lock lock(mutex_);
  state.bad_samples = count_;
  state.bad_and_ahead.assign(ahead_.begin(), ahead_.end());
}

void BadSamples::restore(const SavedState& state) {
  const Lock lock(mutex_);
  count_ = state.bad_samples;
  ahead_.insert(state.bad_and_ahead.begin(), state.bad_and_ahead.end());
  told_ = ahead_;
}

void BadSamples::done(std::string_view graph, std::uint64_t epoch, std::uint64_t position) {
  const Lock lock(mutex_);
  const auto is_done = [&](const SavedState::BadSample& sample) {
    return sample.graph == graph && std::pair(sample.epoch - 1, sample.position) < std::pair(epoch, position);
  };
  std::erase_if(ahead_, is_done);
  std::erase_if(told_, is_done);
}

}  // namespace millrace
