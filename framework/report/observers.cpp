#include "report/observers.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "millrace/error.h"
#include "util/crash_stack.h"
#include "util/mutex.h"
#include "util/thread_name.h"
#include "util/waited_time.h"

namespace millrace {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

template <class T>
bool is(const ObserverEvent& event) {
  return std::holds_alternative<T>(event);
}

}  // namespace

// An observer's control. Once disconnected it ignores requests, since the run may be gone. Thread-safe.
class OwnControl final : public RunControl {
 public:
  explicit OwnControl(RunControl& control) : control_(&control) {}
  void cut() {
    const Lock lock(mutex_);
    control_ = nullptr;
  }
  void stop() override { ask(&RunControl::stop); }
  void save() override { ask(&RunControl::save); }
  void validate() override { ask(&RunControl::validate); }
  void rate_factor(double factor) override { ask(&RunControl::rate_factor, factor); }
  void warn(std::string_view message) override { ask(&RunControl::warn, message); }
  void checkpoint() override { ask(&RunControl::checkpoint); }

 private:
  template <class... Args>
  void ask(void (RunControl::*what)(Args...), Args... args) {
    const Lock lock(mutex_);
    if (control_ != nullptr) (control_->*what)(args...);
  }
  Mutex mutex_;
  RunControl* control_ MILLRACE_GUARDED_BY(mutex_);
};

// One observer. Facts are delivered in order; the newest tick and telemetry when no fact waits, and before the end.
//
// Owned jointly with its thread: if an observer's call does not return, the thread is abandoned, and then touches only this
// queue, not the run or other observers.
class Observers::Queue {
 public:
  Queue(std::string name, Delivery delivery, std::shared_ptr<RunObserver> observer, RunControl& control, Observers& all)
      : name_(std::move(name)), delivery_(delivery), control_(control), observer_(std::move(observer)), all_(all) {}
  static void begin(const std::shared_ptr<Queue>& queue) {
    queue->thread_ = std::thread([queue] { queue->run(); });
  }
  // Returns when everything is delivered, or the observer was abandoned.
  void close() {
    {
      const Lock lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    wait(Until::closed, {}) ? thread_.join() : thread_.detach();
  }

  // Entries of the queue for calls without an event.
  enum class Call { none, flush, sync };

  const std::string& name() const { return name_; }
  Delivery delivery() const { return delivery_; }
  std::size_t behind() const { return behind_; }

  void push(const std::shared_ptr<const ObserverEvent>& event) {
    const Lock lock(mutex_);
    if (failed_ || is_abandoned_) return;
    if (is<TickEvent>(*event)) {
      if (newest_.tick) ++dropped_;
      newest_.tick = event;
    } else if (is<TelemetryEvent>(*event)) {
      newest_.telemetry = event;
    } else {
      if (delivery_ == Delivery::latest && is<StepEvent>(*event) && ++steps_ > kMaxKept) drop_oldest_step();
      if (is<RunEnd>(*event)) prepare_end();
      facts_.push_back({event});
      behind_ = facts_.size();
    }
    changed_.notify_all();
  }

  void ask(Call call) {
    const Lock lock(mutex_);
    if (failed_) return;
    facts_.push_back({nullptr, call});
    ++waiting_calls(call);
    changed_.notify_all();
  }

  enum class Until { started, flushed, synced, ended, closed };
  // False if the observer was abandoned.
  bool wait(Until until, const Waiting& waiting) {
    const Patience& patience = all_.patience_;
    const bool is_impatient = delivery_ == Delivery::latest && (until == Until::ended || until == Until::closed);
    WaitedTime waited;
    Lock lock(mutex_);
    while (true) {
      const auto look = std::chrono::steady_clock::now() + kLook;
      while (!is_abandoned_ && !reached(until) && lock.wait_until(changed_, look)) continue;
      if (is_abandoned_) return false;
      if (reached(until)) return true;
      const double seconds = waited.seconds();
      if (is_impatient && until == Until::ended && seconds > patience.catch_up) drop_all_but_the_end();
      if (is_impatient && seconds > patience.call && is_called_) is_abandoned_ = true;
      const bool leaves = is_abandoned_;
      lock.unlock();
      if (leaves) {
        control_.cut();
        return false;
      }
      if (waiting) waiting(name_);
      lock.lock();
    }
  }

  // Error of start() or end(), for an observer with Delivery::all.
  std::optional<Error> start_error() const {
    const Lock lock(mutex_);
    return errors_.start;
  }
  std::optional<Error> end_error() const {
    const Lock lock(mutex_);
    return errors_.end;
  }

 private:
  struct Fact {
    std::shared_ptr<const ObserverEvent> event;
    Call call = Call::none;
  };
  bool reached(Until until) const MILLRACE_REQUIRES(mutex_) {
    if (until == Until::closed) return reached_.close;
    if (failed_) return has_reported_;
    if (until == Until::flushed) return flushes_ == 0;
    if (until == Until::synced) return syncs_ == 0;
    return until == Until::started ? reached_.start : reached_.end;
  }
  std::size_t& waiting_calls(Call call) MILLRACE_REQUIRES(mutex_) { return call == Call::flush ? flushes_ : syncs_; }

  void drop_oldest_step() MILLRACE_REQUIRES(mutex_) {
    const auto step =
        std::find_if(facts_.begin(), facts_.end(), [](const Fact& fact) { return fact.event && is<StepEvent>(*fact.event); });
    facts_.erase(step);
    --steps_;
    ++dropped_;
  }
  // Drops waiting steps; the last tick and telemetry describe the whole run.
  void prepare_end() MILLRACE_REQUIRES(mutex_) {
    if (delivery_ == Delivery::latest) {
      dropped_ += std::erase_if(facts_, [](const Fact& fact) { return fact.event && is<StepEvent>(*fact.event); });
      steps_ = 0;
    }
    for (auto* const last : {&newest_.tick, &newest_.telemetry}) {
      if (*last) facts_.push_back({std::exchange(*last, nullptr)});
    }
  }
  void drop_all_but_the_end() MILLRACE_REQUIRES(mutex_) {
    dropped_ += std::erase_if(facts_, [](const Fact& fact) { return fact.event && !is<RunEnd>(*fact.event); });
    dropped_ += newest_.tick ? 1 : 0;
    newest_ = {};
    steps_ = 0;
    behind_ = facts_.size();
  }

  void run() {
    name_this_thread(name_);
    use_crash_stack();
    Lock lock(mutex_);
    while (true) {
      while (facts_.empty() && !newest_.tick && !newest_.telemetry && !closing_) lock.wait(changed_);
      Fact fact;
      if (!facts_.empty()) {
        fact = std::move(facts_.front());
        facts_.pop_front();
        behind_ = facts_.size();
        if (fact.event && is<StepEvent>(*fact.event) && steps_ > 0) --steps_;
      } else if (newest_.tick) {
        fact.event = std::move(newest_.tick);
      } else if (newest_.telemetry) {
        fact.event = std::move(newest_.telemetry);
      } else {
        reached_.close = true;
        changed_.notify_all();
        return;
      }
      const std::uint64_t dropped = dropped_;
      is_called_ = true;
      lock.unlock();
      std::optional<Error> error = deliver(fact, dropped);
      lock.lock();
      is_called_ = false;
      if (is_abandoned_) return;
      note(fact, error);
      if (error && !errors_.start && !errors_.end) {
        lock.unlock();
        all_.warn(fmt::format("observer '{}' failed, and receives no further events: {}", name_, error->what()));
        lock.lock();
      }
      has_reported_ = failed_;
      changed_.notify_all();
    }
  }

  std::optional<Error> deliver(const Fact& fact, std::uint64_t dropped) {
    try {
      if (fact.call == Call::flush) {
        observer_->flush();
      } else if (fact.call == Call::sync) {
        observer_->sync();
      } else {
        std::visit(
            Overloaded{[&](const RunStart& e) { observer_->start(e, control_); }, [&](const StepEvent& e) { observer_->step(e); },
                       [&](const EpochEvent& e) { observer_->epoch(e); }, [&](const PassEvent& e) { observer_->pass(e); },
                       [&](const CheckpointEvent& e) { observer_->checkpoint(e); },
                       [&](const BadSampleEvent& e) { observer_->bad_sample(e); },
                       [&](const WarningEvent& e) { observer_->warning(e); },
                       [&](const RequestEvent& e) { observer_->request(e); }, [&](const TickEvent& e) { observer_->tick(e); },
                       [&](const TelemetryEvent& e) { observer_->telemetry(e); },
                       [&](RunEnd e) {
                         e.dropped = dropped;
                         observer_->end(e);
                       }},
            *fact.event);
      }
    } catch (...) {
      return current_error();
    }
    return std::nullopt;
  }

  void note(const Fact& fact, const std::optional<Error>& error) MILLRACE_REQUIRES(mutex_) {
    if (fact.call != Call::none) --waiting_calls(fact.call);
    const bool starts = fact.event && is<RunStart>(*fact.event), ends = fact.event && is<RunEnd>(*fact.event);
    if (starts) reached_.start = true;
    if (ends) reached_.end = true;
    if (!error) return;
    failed_ = true;
    facts_.clear();
    behind_ = 0;
    newest_ = {};
    if (starts && delivery_ == Delivery::all) errors_.start = error;
    if (ends && delivery_ == Delivery::all) errors_.end = error;
  }

  const std::string name_;
  const Delivery delivery_;
  OwnControl control_;  // outlives the observer
  const std::shared_ptr<RunObserver> observer_;
  Observers& all_;                      // not used by the thread of an abandoned observer
  std::atomic<std::size_t> behind_{0};  // waiting facts

  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Fact> facts_ MILLRACE_GUARDED_BY(mutex_);
  // Newest events of kinds that replace each other.
  struct Newest {
    std::shared_ptr<const ObserverEvent> tick, telemetry;
  };
  Newest newest_ MILLRACE_GUARDED_BY(mutex_);
  std::size_t steps_ MILLRACE_GUARDED_BY(mutex_) = 0;  // steps among the facts
  std::size_t flushes_ MILLRACE_GUARDED_BY(mutex_) = 0, syncs_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ MILLRACE_GUARDED_BY(mutex_) = 0;
  struct Reached {
    bool start = false, end = false, close = false;
  };
  Reached reached_ MILLRACE_GUARDED_BY(mutex_);
  bool failed_ MILLRACE_GUARDED_BY(mutex_) = false, closing_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool is_called_ MILLRACE_GUARDED_BY(mutex_) = false;  // inside a call to the observer
  bool is_abandoned_ MILLRACE_GUARDED_BY(mutex_) = false;  // abandoned
  // The other observers were informed of its failure: its waiters continue, and may close them.
  bool has_reported_ MILLRACE_GUARDED_BY(mutex_) = false;
  struct Errors {
    std::optional<Error> start, end;
  };
  Errors errors_ MILLRACE_GUARDED_BY(mutex_);  // with Delivery::all
  std::thread thread_;                         // last, since it uses the members above
};

Observers::Observers() : Observers(Patience()) {}
Observers::Observers(const Patience& patience) : begin_(Clock::now()), patience_(patience) {}
Observers::~Observers() {
  for (const auto& queue : queues_) queue->close();  // all, before one is destroyed: a failing observer warns the others
}

void Observers::add(const std::string& name, Delivery delivery, std::shared_ptr<RunObserver> observer, RunControl& control) {
  const auto queue = std::make_shared<Queue>(name, delivery, std::move(observer), control, *this);
  queues_.reserve(queues_.size() + 1);
  Queue::begin(queue);  // if no thread can be started, there is none to close
  queues_.push_back(queue);
}

double Observers::elapsed_seconds() const { return std::chrono::duration<double>(Clock::now() - begin_.load()).count(); }

bool Observers::was_warned(const std::string& text) {
  const Lock lock(warned_mutex_);
  return !warned_.insert(text).second;
}

std::set<std::string> Observers::warnings() const {
  const Lock lock(warned_mutex_);
  return warned_;
}

void Observers::send(ObserverEvent event) {
  const auto* const warning = std::get_if<WarningEvent>(&event);
  if (warning != nullptr && was_warned(warning->text)) return;
  std::visit(
      [this](auto& each) {
        if constexpr (requires { each.elapsed_seconds; }) each.elapsed_seconds = elapsed_seconds();
      },
      event);
  const auto shared = std::make_shared<const ObserverEvent>(std::move(event));
  for (const auto& queue : queues_) queue->push(shared);
}

void Observers::start(RunStart event, const Waiting& waiting) {
  started_ = true;
  send(std::move(event));
  for (const auto& queue : queues_) {
    if (queue->delivery() != Delivery::all) continue;
    queue->wait(Queue::Until::started, waiting);
    if (auto error = queue->start_error()) throw error->in(fmt::format("observer '{}'", queue->name()));
  }
}

void Observers::flush(const Waiting& waiting) {
  for (const auto& queue : queues_) {
    if (queue->delivery() == Delivery::all) queue->ask(Queue::Call::flush);
  }
  for (const auto& queue : queues_) {
    if (queue->delivery() == Delivery::all) queue->wait(Queue::Until::flushed, waiting);
  }
}

void Observers::sync() {
  for (const auto& queue : queues_) {
    if (queue->delivery() == Delivery::all) queue->ask(Queue::Call::sync);
  }
  for (const auto& queue : queues_) {
    if (queue->delivery() == Delivery::all) queue->wait(Queue::Until::synced, {});
  }
}

void Observers::end(RunEnd event, const Waiting& waiting) {
  if (!started_) return;
  flush(waiting);
  send(std::move(event));
  std::vector<std::string> left;
  for (const auto& queue : queues_) {
    if (!queue->wait(Queue::Until::ended, waiting)) left.push_back(queue->name());
  }
  for (const std::string& name : left) {
    warn(fmt::format("observer '{}' is abandoned: {:g} s after the end of the run, one of its calls has not returned", name,
                     patience_.call));
  }
  for (const auto& queue : queues_) {
    if (auto error = queue->end_error()) throw error->in(fmt::format("observer '{}'", queue->name()));
  }
}

std::string Observers::behind(std::size_t events) const {
  const auto found = std::find_if(queues_.begin(), queues_.end(), [&](const auto& queue) {
    return queue->delivery() == Delivery::all && queue->behind() >= events;
  });
  return found == queues_.end() ? std::string() : (*found)->name();
}

}  // namespace millrace
