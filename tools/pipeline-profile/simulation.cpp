#include "simulation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

namespace millrace {
namespace {

using Then = std::function<void()>;

// What happens when. Waiting ends at a time. Work ends when it has got as much of a core as it needs: `progress_` is how much
// each runnable thread has got so far, so that work of all threads ends in the order of one number.
class Clock {
 public:
  Clock(double cores, double other_threads) : cores_(cores), other_threads_(other_threads) {}

  double now() const { return now_; }
  double busy_cores() const { return busy_; }  // summed over time

  void wait(double seconds, Then then) { push(waiting_, {now_ + seconds, next_++, 0, std::move(then)}); }
  void work(double seconds, double threads, Then then) {
    runnable_ += threads;
    push(working_, {progress_ + seconds, next_++, threads, std::move(then)});
  }

  // To what happens next. False: nothing does.
  bool advance() {
    if (waiting_.empty() && working_.empty()) return false;
    static constexpr double kNever = std::numeric_limits<double>::infinity();
    const double wanted = runnable_ + other_threads_, speed = wanted <= cores_ ? 1 : cores_ / wanted;
    const double wait_ends = waiting_.empty() ? kNever : waiting_.front().at;
    const double work_ends = working_.empty() ? kNever : now_ + (working_.front().at - progress_) / speed;
    const double then = std::max(now_, std::min(wait_ends, work_ends));
    busy_ += (then - now_) * runnable_ * speed;
    progress_ = work_ends <= wait_ends ? working_.front().at : progress_ + (then - now_) * speed;
    now_ = then;
    const Event event = pop(work_ends <= wait_ends ? working_ : waiting_);
    runnable_ -= event.threads;
    event.then();
    return true;
  }

 private:
  struct Event {
    double at;
    std::uint64_t number;  // what was asked for first comes first
    double threads;
    Then then;
    friend bool operator<(const Event& a, const Event& b) { return a.at != b.at ? a.at > b.at : a.number > b.number; }
  };
  static void push(std::vector<Event>& heap, Event event) {
    heap.push_back(std::move(event));
    std::push_heap(heap.begin(), heap.end());
  }
  static Event pop(std::vector<Event>& heap) {
    std::pop_heap(heap.begin(), heap.end());
    Event event = std::move(heap.back());
    heap.pop_back();
    return event;
  }

  const double cores_, other_threads_;
  double now_ = 0, progress_ = 0, runnable_ = 0, busy_ = 0;
  std::uint64_t next_ = 0;
  std::vector<Event> waiting_, working_;
};

// Factors around 1 that are never negative: logarithms are normal.
class Spread {
 public:
  explicit Spread(std::uint64_t seed) : random_(seed) {}
  double factor(double spread) {
    if (spread <= 0) return 1;
    const double variance = std::log1p(spread * spread);
    return std::exp(std::sqrt(variance) * normal_(random_) - variance / 2);
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

struct Chunk {
  std::uint64_t step = 0;
  std::uint32_t count = 0;
};

// Free batches and the I/O threads that fill them: flow::Feeder.
class Feed {
 public:
  Feed(const SimulatedData& data, std::uint64_t steps, Clock& clock, Spread& spread)
      : data_(data), steps_(steps), clock_(clock), spread_(spread), free_(data.buffers), idle_(data.io_threads) {}

  std::function<void(Chunk)> emit;

  void home() {
    ++free_;
    dispatch();
  }
  void dispatch() {
    for (; free_ > 0 && next_ < steps_; --free_) {
      const auto filling = std::make_shared<Filling>(Filling{next_++, data_.batch});
      const std::uint32_t chunks = (data_.batch + data_.chunk - 1) / data_.chunk;
      for (std::uint32_t i = 0; i < std::min(chunks, static_cast<std::uint32_t>(data_.io_threads)); ++i) jobs_.push_back(filling);
    }
    start();
  }
  double busy() const { return busy_; }  // threads, summed over time

 private:
  struct Filling {
    std::uint64_t step;
    std::uint32_t left;
  };
  void start() {
    while (idle_ > 0 && !jobs_.empty()) {
      const std::shared_ptr<Filling> filling = std::move(jobs_.front());
      jobs_.pop_front();
      --idle_;
      read(filling);
    }
  }
  void read(const std::shared_ptr<Filling>& filling) {
    if (filling->left == 0) {
      ++idle_;
      return start();
    }
    const Chunk chunk{filling->step, std::min(filling->left, data_.chunk)};
    filling->left -= chunk.count;
    const double began = clock_.now();
    const auto work = [this, filling, chunk, began] {
      const double factor = spread_.factor(data_.spread / std::sqrt(chunk.count));
      clock_.work(data_.read_seconds * chunk.count * factor, 1, [this, filling, chunk, began] {
        busy_ += clock_.now() - began;
        emit(chunk);
        read(filling);
      });
    };
    if (data_.storage_seconds <= 0) return work();
    clock_.wait(data_.storage_seconds * chunk.count * spread_.factor(data_.spread / std::sqrt(chunk.count)), work);
  }

  const SimulatedData& data_;
  const std::uint64_t steps_;
  Clock& clock_;
  Spread& spread_;
  std::uint32_t free_;
  int idle_;
  std::uint64_t next_ = 0;
  std::deque<std::shared_ptr<Filling>> jobs_;
  double busy_ = 0;
};

// The data threads: a chunk stays on one as long as no serial stage is taken by another.
class DataThreads {
 public:
  DataThreads(const SimulatedData& data, Clock& clock, Spread& spread)
      : data_(data), clock_(clock), spread_(spread), idle_(data.threads), serial_(data.stages.size()) {}

  std::function<void(Chunk)> arrived;  // at the end of its batch's stages

  void add(Chunk chunk) {
    post([this, chunk] { run(chunk, 0); });
  }
  // Work of a step, which the next thread takes that is free. `then` follows.
  void add_first(double seconds, Then then) {
    ready_.push_front([this, seconds, then = std::move(then)] {
      const double began = clock_.now();
      clock_.work(seconds, 1, [this, then, began] {
        busy_ += clock_.now() - began;
        then();
        release();
      });
    });
    start();
  }
  double busy() const { return busy_; }  // threads, summed over time

 private:
  struct Serial {
    bool taken = false;
    std::deque<Chunk> waiting;
  };

  void post(Then task) {
    ready_.push_back(std::move(task));
    start();
  }
  void start() {
    while (idle_ > 0 && !ready_.empty()) {
      const Then task = std::move(ready_.front());
      ready_.pop_front();
      --idle_;
      task();
    }
  }
  void release() {
    ++idle_;
    start();
  }

  // On a thread that is taken.
  void run(Chunk chunk, std::size_t stage) {
    if (stage == data_.stages.size()) {
      arrived(chunk);
      return release();
    }
    if (!data_.stages[stage].serial) {
      double seconds = 0;
      while (stage < data_.stages.size() && !data_.stages[stage].serial) seconds += data_.stages[stage++].seconds;
      return work(chunk, seconds, [this, chunk, stage] { run(chunk, stage); });
    }
    Serial& serial = serial_[stage];
    if (std::exchange(serial.taken, true)) {
      serial.waiting.push_back(chunk);
      return release();
    }
    run_serial(chunk, stage);
  }
  // REQUIRES: the stage is taken for this chunk.
  void run_serial(Chunk chunk, std::size_t stage) {
    work(chunk, data_.stages[stage].seconds, [this, chunk, stage] {
      Serial& serial = serial_[stage];
      serial.taken = !serial.waiting.empty();
      if (serial.taken) {
        const Chunk next = serial.waiting.front();
        serial.waiting.pop_front();
        post([this, next, stage] { run_serial(next, stage); });
      }
      run(chunk, stage + 1);
    });
  }
  void work(Chunk chunk, double seconds, Then then) {
    const double began = clock_.now(), factor = spread_.factor(data_.spread / std::sqrt(chunk.count));
    clock_.work(seconds * chunk.count * factor, 1, [this, then = std::move(then), began] {
      busy_ += clock_.now() - began;
      then();
    });
  }

  const SimulatedData& data_;
  Clock& clock_;
  Spread& spread_;
  int idle_;
  std::vector<Serial> serial_;  // by stage
  std::deque<Then> ready_;
  double busy_ = 0;
};

// The gate, the replicas and the sums over them.
class Steps {
 public:
  Steps(const SimulatedGraph& graph, Clock& clock, Spread& spread, Feed& feed, DataThreads& threads)
      : step_(graph.step),
        batch_(graph.data.batch),
        clock_(clock),
        spread_(spread),
        feed_(feed),
        threads_(threads),
        buckets_(graph.step.buckets),
        devices_(static_cast<std::size_t>(graph.step.replicas)) {
    if (buckets_.empty()) buckets_.emplace_back();
    const double all = std::accumulate(step_.load.begin(), step_.load.end(), 0.0);
    for (std::size_t r = 0; r < devices_.size(); ++r) {
      const double share = step_.load.empty() ? 1 / static_cast<double>(devices_.size()) : step_.load[r] / all;
      devices_[r].seconds = step_.fixed_seconds + step_.sample_seconds * share * batch_;
    }
  }

  void arrived(Chunk chunk) {
    State& state = states_[chunk.step];
    state.samples += chunk.count;
    if (state.samples < batch_) return;
    if (!devices_.empty()) return pass();
    ended(chunk.step);
    feed_.home();
  }
  const std::vector<double>& ends() const { return ends_; }  // of steps, as they ended
  double busy() const { return busy_; }                      // devices, summed over time

 private:
  struct State {
    std::uint32_t samples = 0;
    std::size_t submitted = 0, begun = 0, computed = 0, done = 0;  // replicas
    std::vector<std::size_t> filled;                               // replicas, by bucket
  };
  struct Device {
    double seconds = 0;  // for its share
    bool busy = false;
    double began = 0, factor = 1;
    std::deque<std::uint64_t> submitted;
  };
  struct Sum {
    std::uint64_t step = 0;
    std::size_t bucket = 0;
  };

  void pass() {
    const auto found = states_.find(next_);
    if (!token_is_home_ || found == states_.end() || found->second.samples < batch_) return;
    token_is_home_ = false;
    const std::uint64_t step = next_++;
    for (std::size_t r = 0; r < devices_.size(); ++r) {
      if (step_.submit_seconds > 0) {
        threads_.add_first(step_.submit_seconds, [this, r, step] { submit(r, step); });
      } else {
        submit(r, step);
      }
    }
  }
  void token_home() {
    token_is_home_ = true;
    pass();
  }
  void submit(std::size_t replica, std::uint64_t step) {
    devices_[replica].submitted.push_back(step);
    const bool all = ++states_[step].submitted == devices_.size();
    start(replica);
    if (all && step_.submits_ahead) token_home();
  }
  void start(std::size_t replica) {
    Device& device = devices_[replica];
    if (device.busy || device.submitted.empty()) return;
    const std::uint64_t step = device.submitted.front();
    device.submitted.pop_front();
    device.busy = true;
    device.began = clock_.now();
    device.factor = spread_.factor(step_.spread);
    if (++states_[step].begun == devices_.size()) feed_.home();  // all have taken in their shares
    compute(replica, step, 0);
  }
  void on_device(double seconds, Then then) {
    if (step_.device_threads <= 0) return clock_.wait(seconds, std::move(then));
    clock_.work(seconds, step_.device_threads, std::move(then));
  }
  void compute(std::size_t replica, std::uint64_t step, std::size_t bucket) {
    const double part = buckets_[bucket].ready - (bucket == 0 ? 0 : buckets_[bucket - 1].ready);
    const Device& device = devices_[replica];
    on_device(device.seconds * device.factor * part, [this, replica, step, bucket] {
      const bool is_last = bucket + 1 == buckets_.size();
      if (!is_last) compute(replica, step, bucket + 1);
      fill(step, bucket);
      if (is_last && ++states_[step].computed == devices_.size() && !step_.submits_ahead) token_home();
    });
  }
  void fill(std::uint64_t step, std::size_t bucket) {
    State& state = states_[step];
    state.filled.resize(buckets_.size());
    if (++state.filled[bucket] < devices_.size()) return;
    sums_.push_back({step, bucket});
    if (sums_.size() == 1) reduce();
  }
  void reduce() {
    const auto then = [this] {
      const Sum sum = sums_.front();
      sums_.pop_front();
      if (!sums_.empty()) reduce();
      if (sum.bucket + 1 == buckets_.size()) update(sum.step);
    };
    const double seconds = buckets_[sums_.front().bucket].reduce_seconds;
    if (seconds <= 0 || step_.device_threads <= 0 || step_.sums_wait) return clock_.wait(seconds, then);
    clock_.work(seconds, 1, then);
  }
  void update(std::uint64_t step) {
    for (std::size_t r = 0; r < devices_.size(); ++r) {
      on_device(step_.update_seconds, [this, r, step] {
        Device& device = devices_[r];
        device.busy = false;
        busy_ += clock_.now() - device.began;
        if (++states_[step].done == devices_.size()) ended(step);
        start(r);
      });
    }
  }
  void ended(std::uint64_t step) {
    states_.erase(step);
    ends_.push_back(clock_.now());
  }

  const SimulatedStep& step_;
  const std::uint32_t batch_;
  Clock& clock_;
  Spread& spread_;
  Feed& feed_;
  DataThreads& threads_;
  std::vector<SimulatedBucket> buckets_;
  std::vector<Device> devices_;
  std::map<std::uint64_t, State> states_;  // of steps that are under way
  std::deque<Sum> sums_;                   // the first one is being made
  std::uint64_t next_ = 0;
  bool token_is_home_ = true;
  std::vector<double> ends_;
  double busy_ = 0;
};

}  // namespace

Simulated simulate(const SimulatedGraph& graph, std::uint64_t seed, std::uint64_t steps) {
  Clock clock(graph.cores, graph.other_threads);
  Spread spread(seed);
  Feed feed(graph.data, steps, clock, spread);
  DataThreads threads(graph.data, clock, spread);
  Steps stepping(graph, clock, spread, feed, threads);
  feed.emit = [&](Chunk chunk) { threads.add(chunk); };
  threads.arrived = [&](Chunk chunk) { stepping.arrived(chunk); };
  feed.dispatch();
  while (clock.advance()) continue;

  Simulated result;
  const std::vector<double>& ends = stepping.ends();
  const std::size_t first = ends.size() / 4;
  if (ends.size() < 2 || ends.back() <= ends[first]) return result;
  const double seconds = ends.back();
  result.images_per_second = graph.data.batch * static_cast<double>(ends.size() - 1 - first) / (seconds - ends[first]);
  result.io_busy = feed.busy() / (seconds * graph.data.io_threads);
  result.data_busy = threads.busy() / (seconds * graph.data.threads);
  result.core_busy = clock.busy_cores() / (seconds * graph.cores);
  result.device_busy = graph.step.replicas > 0 ? stepping.busy() / (seconds * graph.step.replicas) : 0;
  return result;
}

}  // namespace millrace
