#include "run/step_barrier.h"

#include <algorithm>
#include <utility>

#include "millrace/error.h"
#include "millrace/util/wire.h"
#include "util/thread_name.h"

namespace millrace {
namespace {

void put(WireWriter& writer, const RequestEvent& request) {
  writer.put(request.kind).put(request.by).put(request.signal).put(request.factor).put(request.text);
}

RequestEvent get_request(WireReader& reader) {
  return RequestEvent{.kind = reader.get<RequestKind>(),
                      .by = reader.get<std::string>(),
                      .signal = reader.get<int>(),
                      .factor = reader.get<double>(),
                      .text = reader.get<std::string>()};
}

}  // namespace

StepBarrier::StepBarrier(Group& group, std::uint32_t channel, Requests& requests, bool counts, HasBadSampleBudget* bad_samples,
                         bool finishes)
    : group_(group),
      channel_(channel),
      requests_(requests),
      counts_(counts),
      finishes_(finishes),
      bad_samples_(bad_samples),
      thread_([this] {
        name_this_thread("barrier");
        loop();
      }) {}

StepBarrier::~StepBarrier() {
  end();
  thread_.join();
}

void StepBarrier::end() {
  Lock lock(mutex_);
  ending_ = true;
  changed_.notify_all();
  while (answering_) lock.wait(changed_);
}

void StepBarrier::start(std::uint64_t first) {
  const Lock lock(mutex_);
  waiting_.clear();
  next_ = first;
  stops_ = false;  // what has ended an earlier pass is over: some graphs run once more when a run ends
}

void StepBarrier::step_is_ready(Graph::StepReady ready, std::function<void(Graph::StepAgreed)> answer) {
  ready.batch = nullptr;
  {
    const Lock lock(mutex_);
    const std::uint64_t step = ready.step;
    waiting_.insert_or_assign(step, Waiting{std::move(ready), std::move(answer)});
  }
  changed_.notify_all();
}

void StepBarrier::loop() {
  Lock lock(mutex_);
  while (true) {
    while (!ending_ && !waiting_.contains(next_)) lock.wait(changed_);
    if (ending_) return;
    Waiting waiting = std::move(waiting_.extract(next_).mapped());
    ++next_;
    const bool stops = stops_;
    lock.unlock();
    Graph::StepAgreed agreed{.go_on = false};
    if (!stops) {
      try {
        agreed = gather(waiting.ready);
      } catch (...) {
        agreed.error = current_error();
      }
    }
    lock.lock();
    if (ending_) return;
    answering_ = true;
    lock.unlock();
    waiting.answer(std::move(agreed));
    waiting = {};
    lock.lock();
    answering_ = false;
    changed_.notify_all();
  }
}

Graph::StepAgreed StepBarrier::gather(const Graph::StepReady& ready) {
  WireWriter writer;
  writer.put(ready.step).put(ready.stream_hash);
  writer.put(ready.weights.size());
  for (const std::vector<std::vector<double>>& of_entry : ready.weights) writer.put(of_entry);
  writer.put(std::string_view(bad_samples_ != nullptr ? bad_samples_->take_found() : ""));
  const std::vector<RequestEvent> asked = requests_.take_outside();
  writer.put(asked.size());
  for (const RequestEvent& request : asked) put(writer, request);

  Graph::StepAgreed agreed;
  std::vector<RequestEvent> all;
  bool breaks_off = false;
  for (const std::vector<std::byte>& message : group_.all_gather(channel_, writer.bytes())) {
    WireReader reader(message);
    const auto step = reader.get<std::uint64_t>();
    agreed.stream_hash += reader.get<std::uint64_t>();
    if (step != ready.step || reader.get<std::size_t>() != ready.weights.size()) {
      fail(ErrorKind::usage, "the processes are at different steps ({} and {}): they run different pipelines", step + 1,
           ready.step + 1);
    }
    for (std::size_t entry = 0; entry < ready.weights.size(); ++entry) {
      for (auto left = reader.get<std::size_t>(); left > 0; --left) agreed.add(entry, reader.list<double>());
    }
    const auto found = reader.get<std::string>();
    if (!found.empty() && bad_samples_ != nullptr) bad_samples_->count_found(found);
    for (auto left = reader.get<std::size_t>(); left > 0; --left) {
      RequestEvent request = get_request(reader);
      const bool is_stop = request.kind == RequestKind::stop;
      const auto is_same = [&](const RequestEvent& each) { return each.kind == request.kind && each.signal == request.signal; };
      if (is_stop && std::ranges::any_of(all, is_same)) continue;  // a terminal's signal comes to each process
      breaks_off = breaks_off || (is_stop && (!finishes_ || request.signal != 0));
      all.push_back(std::move(request));
    }
  }
  enter(std::move(all), breaks_off, counts_ ? ready.step + 1 : Requests::kAtOnce);
  return agreed;
}

// Once a request to stop is in force, the graph may be started again.
void StepBarrier::enter(std::vector<RequestEvent> requests, bool stops, std::uint64_t from) {
  if (stops) {
    const Lock lock(mutex_);
    stops_ = true;
  }
  for (RequestEvent& request : requests) requests_.enter(std::move(request), from);
}

}  // namespace millrace
