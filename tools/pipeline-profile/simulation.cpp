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

// Threads that compute together, one on each of these cores. A single one may move.
struct Runner {
  std::vector<int> cores = {};                // current or last cores
  const std::vector<int>* may_run = nullptr;  // ascending; null: cannot move
  double first = 1, rest = 0;                 // average number of threads that want the first core, and each other one
  double ended = -1;                          // end of its last work
};

// The event queue. Waiting ends at a time. Work ends when its threads have received enough time of their cores.
//
// A thread that wakes goes to an idle core, or else to its last one, and stays there while it has work. An idle core takes a
// thread that waits on another core, but none that is computing, as in Linux.
class Clock {
 public:
  Clock(int cores, double other_threads, std::uint64_t seed)
      : load_(static_cast<std::size_t>(cores)), others_(other_threads), random_(seed) {}

  double now() const { return now_; }
  double busy() const { return busy_; }  // cores, summed over time

  void wait(double seconds, Then then) { push(waiting_, {now_ + seconds, next_++, std::move(then)}); }
  // REQUIRES: the runner outlives its work, and has no other work.
  void work(double seconds, Runner& runner, Then then) {
    const bool slept = runner.ended < now_;
    if (slept && runner.may_run != nullptr) runner.cores = {core_for(runner)};
    add_load(runner, 1);
    working_.push_back({seconds, &runner, std::move(then)});
  }

  // Advances to the next event. False if there is none.
  bool advance() {
    if (waiting_.empty() && working_.empty()) return false;
    Next next = find_next();
    if (next.at > now_ && give_to_idle_cores()) next = find_next();
    pass_until(next.at);
    if (next.work < working_.size()) {
      end_work(next.work);
    } else {
      pop(waiting_).then();
    }
    return true;
  }

 private:
  struct Event {
    double at;
    std::uint64_t number;  // earlier requests come first
    Then then;
    friend bool operator<(const Event& a, const Event& b) { return a.at != b.at ? a.at > b.at : a.number > b.number; }
  };
  struct Work {
    double left;  // seconds on its own cores
    Runner* runner;
    Then then;
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

  double load(int core) const { return load_[static_cast<std::size_t>(core)]; }
  void add_load(const Runner& runner, double sign) {
    for (std::size_t i = 0; i < runner.cores.size(); ++i) {
      double& load = load_[static_cast<std::size_t>(runner.cores[i])];
      const bool was_busy = load > kNothing;
      load += sign * (i == 0 ? runner.first : runner.rest);
      const bool is_busy = load > kNothing;
      busy_cores_ += is_busy - was_busy;
      if (was_busy && !is_busy) emptied_.push_back(runner.cores[i]);
    }
  }
  int core_for(const Runner& runner) const {
    const auto is_idle = [this](int core) { return load(core) <= kNothing; };
    if (!runner.cores.empty() && is_idle(runner.cores.front())) return runner.cores.front();
    const auto idle = std::ranges::find_if(*runner.may_run, is_idle);
    if (idle != runner.may_run->end()) return *idle;
    return runner.cores.empty() ? *std::ranges::min_element(*runner.may_run, {}, [this](int core) { return load(core); })
                                : runner.cores.front();
  }
  struct Next {
    double at;
    std::size_t work;  // index of the work that ends; the number of works: waiting ends
  };
  Next find_next() {
    find_level();
    Next next{std::numeric_limits<double>::infinity(), working_.size()};
    for (std::size_t i = 0; i < working_.size(); ++i) {
      const double end = std::max(now_, now_ + working_[i].left * slowness(*working_[i].runner));
      if (end < next.at) next = {end, i};
    }
    return waiting_.empty() || next.at <= waiting_.front().at ? next : Next{waiting_.front().at, working_.size()};
  }

  // True if a thread has moved.
  bool give_to_idle_cores() {
    bool has_moved = false;
    for (const int core : std::exchange(emptied_, {})) {
      if (load(core) <= kNothing && level_ < 1) has_moved = take_for(core) || has_moved;
    }
    return has_moved;
  }
  // From the busiest core. One of its threads computes, and is not taken.
  bool take_for(int idle) {
    std::vector<Runner*> there;
    for (const Work& work : working_) {
      Runner& runner = *work.runner;
      if (runner.may_run == nullptr || !std::ranges::binary_search(*runner.may_run, idle)) continue;
      const double more = load(runner.cores.front()) - (there.empty() ? 1 : load(there.front()->cores.front()));
      if (more > kNothing) there.clear();
      if (more > kNothing || (!there.empty() && runner.cores == there.front()->cores)) there.push_back(&runner);
    }
    if (there.empty()) return false;
    const auto computes = static_cast<std::size_t>(chance_(random_) * load(there.front()->cores.front()));
    if (computes == 0 && there.size() == 1) return false;
    Runner& taken = *there[computes == 0 ? 1 : 0];
    add_load(taken, -1);
    taken.cores = {idle};
    add_load(taken, 1);
    return true;
  }

  // Other programs take the least busy cores: up to this many threads on each.
  void find_level() {
    level_ = 0;
    if (others_ <= static_cast<double>(load_.size()) - busy_cores_) return;  // there is an idle core for each
    double sum = others_;
    std::size_t count = load_.size();
    for (const double load : load_) sum += load;
    for (std::size_t before = 0; before != count;) {
      before = count;
      level_ = sum / static_cast<double>(count);
      sum = others_, count = 0;
      for (const double load : load_) {
        if (load <= level_) sum += load, ++count;
      }
    }
  }
  double threads_on(int core) const { return std::max({1.0, load(core), level_}); }
  // The factor by which it slows down: part of the time the first thread computes alone, otherwise all wait for the slowest.
  double slowness(const Runner& runner) const {
    const double alone = threads_on(runner.cores.front());
    double slowest = alone;
    for (const int core : runner.cores) slowest = std::max(slowest, threads_on(core));
    return runner.rest * slowest + (1 - runner.rest) * alone;
  }

  void pass_until(double then) {
    const double passed = then - now_;
    for (Work& work : working_) {
      const Runner& runner = *work.runner;
      work.left -= passed / slowness(runner);
      for (const int core : runner.cores) {
        busy_ += passed * (core == runner.cores.front() ? runner.first : runner.rest) / threads_on(core);
      }
    }
    now_ = then;
  }
  void end_work(std::size_t which) {
    const Then then = std::move(working_[which].then);
    Runner& runner = *working_[which].runner;
    working_.erase(working_.begin() + static_cast<std::ptrdiff_t>(which));
    add_load(runner, -1);
    runner.ended = now_;
    then();
  }

  static constexpr double kNothing = 1e-9;  // threads; covers rounding of sums
  std::vector<double> load_;                // our threads that want each core
  std::vector<int> emptied_;                // cores, since time last advanced
  int busy_cores_ = 0;
  const double others_;
  double now_ = 0, busy_ = 0, level_ = 0;
  std::uint64_t next_ = 0;
  std::vector<Event> waiting_;
  std::vector<Work> working_;
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> chance_;
};

// Factors around 1 that are never negative: log-normal.
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

// Threads of one kind, which may move between these cores.
struct Threads {
  Threads(int count, const std::vector<int>& cores) : all(static_cast<std::size_t>(count), Runner{.may_run = &cores}) {
    for (Runner& each : all) idle.push_back(&each);
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  Runner& take() {  // the one that has slept the shortest
    Runner& taken = *idle.back();
    idle.pop_back();
    return taken;
  }
  std::vector<Runner> all;
  std::vector<Runner*> idle;
};

struct Chunk {
  std::uint64_t step = 0;
  std::uint32_t count = 0;
};

// Free batches and the I/O threads that fill them: flow::Feeder.
class Feed {
 public:
  Feed(const SimulatedData& data, std::uint64_t steps, Clock& clock, Spread& spread)
      : data_(data), steps_(steps), clock_(clock), spread_(spread), free_(data.buffers), threads_(data.io_threads, data.cores) {}

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
    while (!threads_.idle.empty() && !jobs_.empty()) {
      const std::shared_ptr<Filling> filling = std::move(jobs_.front());
      jobs_.pop_front();
      read(filling, threads_.take());
    }
  }
  void read(const std::shared_ptr<Filling>& filling, Runner& thread) {
    if (filling->left == 0) {
      threads_.idle.push_back(&thread);
      return start();
    }
    const Chunk chunk{filling->step, std::min(filling->left, data_.chunk)};
    filling->left -= chunk.count;
    const double began = clock_.now();
    const auto work = [this, filling, chunk, began, &thread] {
      const double factor = spread_.factor(data_.spread / std::sqrt(chunk.count));
      clock_.work(data_.read_seconds * chunk.count * factor, thread, [this, filling, chunk, began, &thread] {
        busy_ += clock_.now() - began;
        emit(chunk);
        read(filling, thread);
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
  Threads threads_;
  std::uint64_t next_ = 0;
  std::deque<std::shared_ptr<Filling>> jobs_;
  double busy_ = 0;
};

// The data threads: a chunk stays on one unless another holds a serial stage.
class DataThreads {
 public:
  DataThreads(const SimulatedData& data, Clock& clock, Spread& spread)
      : data_(data), clock_(clock), spread_(spread), threads_(data.threads, data.cores), serial_(data.stages.size()) {}

  std::function<void(Chunk)> arrived;  // at the end of its batch's stages

  void add(Chunk chunk) {
    post([this, chunk](Runner& thread) { run(chunk, 0, thread); });
  }
  // A step's work for the next free thread; `then` follows.
  void add_first(double seconds, Then then) {
    ready_.push_front([this, seconds, then = std::move(then)](Runner& thread) {
      const double began = clock_.now();
      clock_.work(seconds, thread, [this, then, began, &thread] {
        busy_ += clock_.now() - began;
        then();
        release(thread);
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

  using Task = std::function<void(Runner&)>;
  void post(Task task) {
    ready_.push_back(std::move(task));
    start();
  }
  void start() {
    while (!threads_.idle.empty() && !ready_.empty()) {
      const Task task = std::move(ready_.front());
      ready_.pop_front();
      task(threads_.take());
    }
  }
  void release(Runner& thread) {
    threads_.idle.push_back(&thread);
    start();
  }

  void run(Chunk chunk, std::size_t stage, Runner& thread) {
    if (stage == data_.stages.size()) {
      arrived(chunk);
      return release(thread);
    }
    if (!data_.stages[stage].serial) {
      double seconds = 0;
      while (stage < data_.stages.size() && !data_.stages[stage].serial) seconds += data_.stages[stage++].seconds;
      return work(chunk, seconds, thread, [this, chunk, stage, &thread] { run(chunk, stage, thread); });
    }
    Serial& serial = serial_[stage];
    if (std::exchange(serial.taken, true)) {
      serial.waiting.push_back(chunk);
      return release(thread);
    }
    run_serial(chunk, stage, thread);
  }
  // REQUIRES: this chunk holds the stage.
  void run_serial(Chunk chunk, std::size_t stage, Runner& thread) {
    work(chunk, data_.stages[stage].seconds, thread, [this, chunk, stage, &thread] {
      Serial& serial = serial_[stage];
      serial.taken = !serial.waiting.empty();
      if (serial.taken) {
        const Chunk next = serial.waiting.front();
        serial.waiting.pop_front();
        post([this, next, stage](Runner& other) { run_serial(next, stage, other); });
      }
      run(chunk, stage + 1, thread);
    });
  }
  void work(Chunk chunk, double seconds, Runner& thread, Then then) {
    const double began = clock_.now(), factor = spread_.factor(data_.spread / std::sqrt(chunk.count));
    clock_.work(seconds * chunk.count * factor, thread, [this, then = std::move(then), began] {
      busy_ += clock_.now() - began;
      then();
    });
  }

  const SimulatedData& data_;
  Clock& clock_;
  Spread& spread_;
  Threads threads_;
  std::vector<Serial> serial_;  // by stage
  std::deque<Task> ready_;
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
        devices_(static_cast<std::size_t>(graph.step.replicas)),
        adder_{.may_run = &graph.data.cores} {
    if (buckets_.empty()) buckets_.emplace_back();
    const double all = std::accumulate(step_.load.begin(), step_.load.end(), 0.0);
    for (std::size_t r = 0; r < devices_.size(); ++r) {
      const double share = step_.load.empty() ? 1 / static_cast<double>(devices_.size()) : step_.load[r] / all;
      devices_[r].seconds = step_.fixed_seconds + step_.sample_seconds * share * batch_;
      if (step_.device_threads > 0) devices_[r].team = team_of(r);
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
  const std::vector<double>& ends() const { return ends_; }  // ends of steps
  double busy() const { return busy_; }                      // devices, summed over time

 private:
  struct State {
    std::uint32_t samples = 0;
    std::size_t submitted = 0, begun = 0, computed = 0, done = 0;  // replicas
    std::vector<std::size_t> filled;                               // replicas, by bucket
  };
  struct Device {
    double seconds = 0;  // for its share
    Runner team;         // if it computes on the host's cores
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
    if (++states_[step].begun == devices_.size()) feed_.home();  // all have ingested their shares
    compute(replica, step, 0);
  }
  // All of its threads compute for the fraction of time that keeps the measured average busy.
  Runner team_of(std::size_t replica) const {
    const auto most = static_cast<double>(step_.cores.front().size());
    const double together = most > 1 ? std::clamp((step_.device_threads - 1) / (most - 1), 0.0, 1.0) : 1;
    return {.cores = step_.cores[replica], .first = std::min(1.0, step_.device_threads), .rest = together};
  }
  void on_device(Device& device, double seconds, Then then) {
    if (step_.device_threads <= 0) return clock_.wait(seconds, std::move(then));
    clock_.work(seconds, device.team, std::move(then));
  }
  void compute(std::size_t replica, std::uint64_t step, std::size_t bucket) {
    const double part = buckets_[bucket].ready - (bucket == 0 ? 0 : buckets_[bucket - 1].ready);
    Device& device = devices_[replica];
    on_device(device, device.seconds * device.factor * part, [this, replica, step, bucket] {
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
    clock_.work(seconds, adder_, then);
  }
  void update(std::uint64_t step) {
    for (std::size_t r = 0; r < devices_.size(); ++r) {
      on_device(devices_[r], step_.update_seconds, [this, r, step] {
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
  Runner adder_;                           // sums gradients on the host's cores
  std::map<std::uint64_t, State> states_;  // current steps
  std::deque<Sum> sums_;                   // the first one is in progress
  std::uint64_t next_ = 0;
  bool token_is_home_ = true;
  std::vector<double> ends_;
  double busy_ = 0;
};

}  // namespace

Simulated simulate(SimulatedGraph graph, std::uint64_t seed, std::uint64_t steps) {
  if (graph.data.cores.empty()) {
    graph.data.cores.resize(static_cast<std::size_t>(graph.cores));
    std::iota(graph.data.cores.begin(), graph.data.cores.end(), 0);
  }
  Clock clock(graph.cores, graph.other_threads, seed);
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
  result.core_busy = clock.busy() / (seconds * graph.cores);
  result.device_busy = graph.step.replicas > 0 ? stepping.busy() / (seconds * graph.step.replicas) : 0;
  return result;
}

}  // namespace millrace
