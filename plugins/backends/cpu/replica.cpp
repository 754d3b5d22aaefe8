// A network on the CPU: one thread runs everything, with its own OpenMP team on fixed processors.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "backend.h"
#include "device_info.h"
#include "executable.h"
#include "kernels/map_elements.h"
#include "kernels/rearrange.h"
#include "losses.h"
#include "millrace/backend/device_times.h"
#include "millrace/backend/executables.h"
#include "millrace/util/telemetry.h"
#include "parameter_store.h"
#include "primitives.h"
#include "work_queue.h"

namespace millrace::cpu {
namespace {

enum class Work { none, training, inference, update, copying, sums };

// Measures how long a replica's thread has worked, by kind of work. One thread writes; any thread reads.
class WorkMeter {
 public:
  void begin(Work work) {
    const std::uint64_t now = now_ticks(), since = since_.load();
    std::atomic<std::uint64_t>& ticks = ticks_[static_cast<std::size_t>(now_.load())];
    ++changes_;
    ticks = ticks.load() + (now - std::min(now, since));
    since_ = now;
    now_ = work;
    ++changes_;
  }

  DeviceTimes times() const {
    std::array<std::uint64_t, kKinds> ticks{};
    std::uint64_t changes = 0;
    do {
      changes = changes_.load();
      for (std::size_t kind = 0; kind < kKinds; ++kind) ticks[kind] = ticks_[kind].load();
      const std::uint64_t now = now_ticks(), since = since_.load();
      ticks[static_cast<std::size_t>(now_.load())] += now - std::min(now, since);
    } while (changes % 2 != 0 || changes != changes_.load());
    const auto seconds = [&](Work work) {
      return seconds_per_tick() * static_cast<double>(ticks[static_cast<std::size_t>(work)]);
    };
    return {seconds(Work::training), seconds(Work::inference), seconds(Work::update), seconds(Work::copying),
            seconds(Work::sums)};
  }

  // Counts as `work` while this lives; then the previous work resumes.
  class Piece {
   public:
    Piece(WorkMeter& meter, Work work) : meter_(meter), then_(meter.now_) { meter.begin(work); }
    ~Piece() { meter_.begin(then_); }
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;
    void then(Work work) { then_ = work; }  // resumes this one instead

   private:
    WorkMeter& meter_;
    Work then_;
  };

 private:
  static constexpr std::size_t kKinds = 6;
  std::array<std::atomic<std::uint64_t>, kKinds> ticks_{};
  std::atomic<std::uint64_t> since_{0}, changes_{0};  // `changes_` is odd while begin() writes
  std::atomic<Work> now_{Work::none};
};

// The weighted sum of a network's outputs for several views of the same images (test-time augmentation), in float32.
class ViewSum {
 public:
  static std::size_t bytes(const Network& network, std::uint32_t samples) {
    return samples * static_cast<std::size_t>(network.output().elements()) * sizeof(float);
  }
  void reserve(std::size_t bytes) { memory_ = MemoryRegion(bytes); }
  void begin(const Map& output) {  // zeros with the shape of this output
    const std::size_t needed = static_cast<std::size_t>(output.elements()) * sizeof(float);
    if (needed > memory_.bytes()) reserve(needed);
    sum_ = Map::channels_last(memory_.as<float>(), DataType::f32, output.n, output.channels, output.height, output.width);
    zero(sum_);
  }
  void add(const Map& output, const View& view) { add_view(output, static_cast<float>(view.weight), view.flip_x, sum_); }
  void clear() { sum_ = {}; }  // discards the sum until the next begin()

  bool exists() const { return sum_.data != nullptr; }
  const Map& get() const { return sum_; }

 private:
  MemoryRegion memory_;
  Map sum_;
};

Network frozen(Network network) {
  for (Parameter& parameter : network.parameters) parameter.trainable = false;
  return network;
}

// The network compiled for training and for inference, and for gradients of scores by values (CompileRequest::gradients):
// inference of a network without trained parameters, and its backward down to the value. All share memory.
class CompiledNetwork {
 public:
  // The arguments must outlive this object.
  CompiledNetwork(const Network& network, const CompileOptions& options, ParameterStore& parameters)
      : network_(network), options_(options), parameters_(parameters), executables_(network, options) {}

  // Plans for full batches, and finishes planning the parameters, whose layouts these executables choose. Throws the errors of
  // Executable.
  void compile(const PrimitiveChecks& checks) {
    const dnnl::engine engine = processor();
    const Layout layout = preferred_layout(network_, options_, engine);
    CompileContext context{executables_.network(), options_, layout, parameters_, engine, dnnl::stream(engine), checks};
    std::vector<Node> training = fused(network_, options_.request.loss_outputs(network_));
    // The executable planned first chooses the layout of weights.
    if (options_.largest_train_batch > options_.train_batch) Executable(context, training, options_.largest_train_batch, true);
    executables_.compile(
        context, std::move(training),
        context.predicts() ? fused_to_predict(network_, options_.request.outputs) : fused(network_, options_.request.outputs));
    compile_gradients(context);
    parameters_.finish_planning(checks);
    checks.release_memory();
    bucket_nodes_ = first_nodes(network_, executables_.nodes(true), parameters_.plan().parameters.buckets());
  }

  std::size_t arena_bytes() const {
    std::size_t bytes = executables_.arena_bytes();
    for (const auto& [by, executables] : gradients_) bytes = std::max(bytes, executables.arena_bytes());
    return bytes;
  }
  // By bucket: the first node in forward order, so the last of backward, with gradients in it.
  const std::vector<int>& bucket_nodes() const { return bucket_nodes_; }
  const dnnl::engine& engine() const { return executables_.context().engine; }

  // Allocates. REQUIRES: the memory of the parameters.
  void start() {
    arena_ = MemoryRegion(arena_bytes());
    const auto arena = [this](std::size_t bytes) { return arena_of(bytes); };
    executables_.start([] {}, arena);
    for (auto& [by, executables] : gradients_) executables.start([] {}, arena);
  }

  // ---- After start() ----
  Executables<Executable>& executables() { return executables_; }
  // Throws Error(usage) if this gradient was not requested.
  Executable& gradient(LayerPort by, std::uint32_t samples) {
    if (const auto found = gradients_.find(by); found != gradients_.end()) return found->second.inference(samples);
    fail(ErrorKind::usage, "no gradient by the output of {} is computed: name it in CompileRequest::gradients",
         place_of(network_.layers[static_cast<std::size_t>(by.layer)]));
  }

 private:
  void compile_gradients(const CompileContext& shared) {
    if (options_.request.gradients.empty()) return;
    const Network network = frozen(network_);
    check_gradients(network, options_.request);
    CompileOptions inference = options_;
    inference.train_batch = 0;
    for (const ScoreGradient& gradient : options_.request.gradients) {
      const auto [found, is_new] = gradients_.try_emplace(gradient.by, network, inference);
      if (!is_new) continue;
      CompileContext context = shared.with(found->second.network());
      context.by = gradient.by;
      found->second.compile(context, {}, fused(network, {gradient.by}));
    }
  }

  std::byte* arena_of(std::size_t bytes) {
    executables_.context().checks.release_memory();
    if (bytes > arena_.bytes()) {
      arena_ = MemoryRegion(bytes);
      executables_.bind(arena_.as<std::byte>());
      for (auto& [by, executables] : gradients_) executables.bind(arena_.as<std::byte>());
    }
    return arena_.as<std::byte>();
  }

  const Network& network_;
  const CompileOptions& options_;
  ParameterStore& parameters_;
  Executables<Executable> executables_;
  std::map<LayerPort, Executables<Executable>> gradients_;  // by value
  std::vector<int> bucket_nodes_;
  MemoryRegion arena_;
};

// Every call except memory_plan() and buckets() becomes a closure in the queue of the replica's thread. An error of that work is
// thrown by finish() and by the next ingest(), infer(), read() or write(); until then later steps are skipped, their events
// complete and their buckets are announced, so that no thread hangs. The error is permanent: a failed replica is not reused.
//
// Smaller sample counts are computed exactly, not padded: the first step with a new count compiles for it.
class CpuReplica final : public Replica, public MeasuresDevice {
 public:
  CpuReplica(const Network& network, const CompileOptions& options, const DeviceOptions& device, const PrimitiveChecks& checks)
      : network_(network),
        options_(options),
        table_(network_),
        parameters_(network_, options_),
        compiled_(network_, options_, parameters_),
        losses_(network_) {
    queue_.run([&] {
      make_team(device.cores, device.warn);
      compiled_.compile(checks);
      losses_.plan(options_.request.losses, std::max(options_.train_batch, options_.infer_batch));
    });
  }
  ~CpuReplica() override { queue_.drain(); }

  MemoryPlan memory_plan() const override {
    MemoryPlan plan;
    parameters_.append_to(plan);
    plan.items.push_back({"activations and their gradients", compiled_.arena_bytes()});
    const std::uint32_t most = std::max(options_.train_batch, options_.infer_batch);
    plan.items.push_back(
        {"labels, targets and losses", LossInputs::bytes(network_, options_.request.losses, most) + losses_.bytes()});
    if (options_.request.sums_views)
      plan.items.push_back({"sums of several views", ViewSum::bytes(network_, options_.infer_batch)});
    return plan;
  }

  void start() override {
    queue_.run([this] {
      parameters_.start();
      losses_.start();
      if (options_.request.sums_views) view_sum_.reserve(ViewSum::bytes(network_, options_.infer_batch));
      compiled_.start();
    });
  }

  const std::vector<Bucket>& buckets() const override { return parameters_.plan().parameters.buckets(); }

  void ingest(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count) override {
    queue_.check();
    submitted_epoch_ = batch->epoch;
    batch->in_flight.fetch_add(1);
    const auto work = [this, batch, begin, count] {
      updates_left_ = 0;
      take_inputs(*batch, begin, count);
      pass_.first_sample = batch->first_slot + begin;
      epoch_ = batch->epoch;
      training_ = count == 0 ? nullptr : &compiled_.executables().training(count, epoch_);
      if (training_ != nullptr) run_ingest(*batch, begin, count, nullptr, *training_);
    };
    submit(Work::training, or_give_up(work), [batch] { batch->in_flight.fetch_sub(1); });
  }

  // A replica without samples meets the others at the same points as the network for full batches.
  void forward(std::uint64_t step) override {
    const auto work = [this, step] {
      pass_.step = step;
      if (training_ != nullptr)
        training_->forward(pass_);
      else if (Executable* const others = compiled_.executables().full_training(epoch_); others != nullptr)
        others->meet_forward();
      read_ = training_;
    };
    submit(Work::training, or_give_up(work));
  }

  Ref<Event> losses(std::span<const LossTerm> terms) override {
    return submit(Work::training,
                  or_give_up([this, all = std::vector<LossTerm>(terms.begin(), terms.end())] { run_losses(all); }));
  }

  // The count of buckets is known here even if the work fails, since those that wait for them count them too.
  void backward(BucketReady ready) override {
    const auto filled = static_cast<int>(filled_buckets(buckets(), submitted_epoch_));
    const auto to = std::make_shared<Announcement>(Announcement{std::move(ready), filled});
    const auto work = [this, to] {
      run_backward(*to);
      updates_left_ = to->buckets;
    };
    submit(Work::training, or_give_up(work), [this, to] {
      const std::optional<Error> failure = queue_.failure();
      announce(*to, -1, failure ? &*failure : nullptr);  // whatever happened, all are announced
      adds_ = false;
    });
  }

  Ref<Event> update(int bucket, const UpdateStep& step, const Ref<Event>& after) override {
    const std::vector<double> factors(step.rate_factor.begin(), step.rate_factor.end());
    return submit(Work::update, [this, bucket, copied = step, factors, after]() mutable {
      if (after && !after->complete()) {
        const WorkMeter::Piece waiting(meter_, Work::sums);
        after->wait();
      }
      if (after) after->wait();  // throws what has failed
      copied.rate_factor = factors;
      parameters_.update(bucket, copied);
      if (updates_left_ > 0) --updates_left_;
    });
  }

  void keep_gradients() override {
    submit(Work::training, [this] {
      parameters_.keep_gradients(host_queue);
      adds_ = true;
    });
  }

  Ref<Event> lerp_into(std::string_view copy, double decay, bool write_back) override {
    return submit(Work::update,
                  [this, name = std::string(copy), decay, write_back] { parameters_.lerp_into(name, decay, write_back); });
  }

  Ref<Event> swap_with(std::string_view copy) override {
    return submit(Work::update, [this, name = std::string(copy)] { parameters_.swap_with(name); });
  }

  Ref<Event> infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                   const std::shared_ptr<const Loss>& loss, StepSums& sums) override {
    queue_.check();
    batch->in_flight.fetch_add(1);
    std::vector<View> looks(views.begin(), views.end());
    if (looks.empty()) looks.push_back({});
    const auto work = [this, batch, begin, count, looks, loss, &sums] {
      training_ = nullptr;  // the training pass that shares the arena is gone
      take_inputs(*batch, begin, count);
      const Map output = count == 0 ? Map{} : run_infer(*batch, begin, count, looks);
      if (loss != nullptr) sums = losses_.run(loss, {output}, inputs_, count, 1);
    };
    return submit(Work::inference, work, [batch] { batch->in_flight.fetch_sub(1); });
  }

  Ref<Event> read_outputs(std::span<const OutputCopy> copies) override {
    return submit(Work::inference, [this, wanted = std::vector<OutputCopy>(copies.begin(), copies.end())] {
      if (read_ == nullptr) return;
      for (const OutputCopy& copy : wanted) {
        const bool summed = copy.value == network_.result() && view_sum_.exists();
        read_map(summed ? view_sum_.get() : read_->output(copy.value), copy.host);
      }
    });
  }

  Ref<Event> read_gradients(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count,
                            std::span<const GradientCopy> copies) override {
    queue_.check();
    batch->in_flight.fetch_add(1);
    const auto work = [this, batch, begin, count, wanted = std::vector<GradientCopy>(copies.begin(), copies.end())] {
      training_ = read_ = nullptr;  // passes that share the arena are gone
      view_sum_.clear();
      for (const GradientCopy& copy : wanted) {
        if (count > 0) run_gradient(*batch, begin, count, copy);
      }
    };
    return submit(Work::inference, work, [batch] { batch->in_flight.fetch_sub(1); });
  }

  std::vector<float> logits() override {
    std::vector<float> values;
    queue_.run([&] {
      if (read_ != nullptr) values = values_of(view_sum_.exists() ? view_sum_.get() : read_->output());
    });
    return values;
  }

  std::vector<LayerTime> layer_times() override {
    finish();
    return options_.time_layers ? compiled_.executables().layer_times() : std::vector<LayerTime>();
  }

  std::vector<std::string> states() const override { return parameters_.plan().states.names(); }
  std::optional<Shape> state_shape(std::string_view state, int parameter) const override {
    return parameters_.plan().states.shape(state, parameter);
  }

  std::vector<float> read(std::string_view state, int parameter) override {
    std::vector<float> values;
    queue_.run([&] { values = parameters_.read(state, parameter, compiled_.engine()); });
    return values;
  }

  void write(std::string_view state, int parameter, std::span<const float> values) override {
    queue_.run([&] { parameters_.write(state, parameter, values, compiled_.engine()); });
  }

  void finish() override {
    queue_.drain();
    queue_.check();
  }

  DeviceTimes device_times() const override { return meter_.times(); }

 private:
  // Runs `work` after all earlier work; `always`: see WorkQueue. Between backward and the step's last update, an empty queue
  // waits for sums; otherwise it is idle.
  Ref<Event> submit(Work kind, std::function<void()> work, std::function<void()> always = {}) {
    return queue_.submit(
        [this, kind, work = std::move(work)] {
          WorkMeter::Piece piece(meter_, kind);
          work();
          piece.then(updates_left_ > 0 ? Work::sums : Work::none);
        },
        std::move(always));
  }

  // Wraps `work` to notify the other replicas on failure: they would wait for this one in the middle of a pass.
  std::function<void()> or_give_up(std::function<void()> work) const {
    if (options_.all_gather == nullptr) return work;
    return [exchange = options_.all_gather, work = std::move(work)] {
      try {
        work();
      } catch (...) {
        exchange->give_up();
        throw;
      }
    };
  }

  void take_inputs(const Batch& batch, std::uint32_t begin, std::uint32_t count) {
    inputs_.take(batch, begin, count, table_);
    rows_ = count;
    read_ = nullptr;
    view_sum_.clear();
  }

  void run_ingest(const Batch& batch, std::uint32_t begin, std::uint32_t count, const View* view, Executable& to) {
    const WorkMeter::Piece copying(meter_, Work::copying);
    millrace::cpu::ingest(batch, begin, count, view, table_, to.input());
  }

  void run_losses(const std::vector<LossTerm>& terms) {
    if (training_ == nullptr) {
      for (const LossTerm& term : terms) *term.sums = losses_.run({term.loss, term.output}, {}, inputs_, 0, term.divisor);
      return;
    }
    const auto run = [&](const LossTerm& term, const auto& at, bool add) {
      *term.sums = losses_.run({term.loss, term.output}, {at.output(), &at.d_output(), add}, inputs_, rows_, term.divisor);
    };
    training_->plan().measure(terms, run, [](const Map& gradient) { zero(gradient); });
  }

  struct Announcement {
    BucketReady ready;
    int buckets = 0;  // number of first buckets
    int next = 0;
  };

  void run_backward(Announcement& to) {
    if (training_ == nullptr) {
      if (Executable* const others = compiled_.executables().full_training(epoch_); others != nullptr) others->meet_backward();
      parameters_.zero_gradients(host_queue);
      return;
    }
    training_->backward(pass_, [&](int node) { announce(to, node); });
  }

  // The buckets that wait for nothing before this node. `failure`: of the work that fills them.
  void announce(Announcement& to, int node, const Error* failure = nullptr) {
    const auto filled = [&] {
      return to.next < to.buckets && compiled_.bucket_nodes()[static_cast<std::size_t>(to.next)] >= node;
    };
    while (filled()) {
      if (adds_ && failure == nullptr) parameters_.add_kept_gradients(to.next);
      const Ref<HostEvent> event = make_ref<HostEvent>();
      event->signal(failure);
      to.ready(to.next++, event);
    }
  }

  // Runs the views; the output, their weighted sum where there are several.
  Map run_infer(const Batch& batch, std::uint32_t begin, std::uint32_t count, const std::vector<View>& views) {
    Executable& network = compiled_.executables().inference(count);
    check_views(network_, views);
    const bool one = is_one_view(views);
    if (!one) view_sum_.begin(network.output());
    for (const View& view : views) {
      run_ingest(batch, begin, count, &view, network);
      network.forward(pass_);
      read_ = &network;
      if (!one) view_sum_.add(network.output(), view);
    }
    return one ? network.output() : view_sum_.get();
  }

  // Reads a gradient of scores by inference and a backward of its own.
  void run_gradient(const Batch& batch, std::uint32_t begin, std::uint32_t count, const GradientCopy& copy) {
    Executable& network = compiled_.gradient(copy.gradient.by, count);
    const View plain;
    run_ingest(batch, begin, count, &plain, network);
    network.forward(pass_);
    const auto numbers = scored_numbers(copy.gradient, values_of(network.output()), std::span(batch.labels + begin, count));
    const Map& scores = network.plan().measured().front().d_output();
    zero(scores);
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      if (numbers[n] >= 0) put(scores, offset(scores, static_cast<std::int64_t>(n), numbers[n], 0), 1);
    }
    network.backward(pass_, [](int) {});
    read_map(network.gradient(), copy.host);
  }

  const Network network_;
  const CompileOptions options_;
  const PixelTable table_;
  ParameterStore parameters_;
  CompiledNetwork compiled_;

  std::uint64_t submitted_epoch_ = 0;  // set by the last ingest(); used by the caller's thread

  // State of the current pass; used only by the replica's thread.
  Executable* training_ = nullptr;  // the training executable; null without samples
  Pass pass_;
  std::uint64_t epoch_ = 0;  // the batch's
  int updates_left_ = 0;     // in the step, after its backward
  bool adds_ = false;        // backward adds to the kept gradients
  std::int64_t rows_ = 0;
  LossInputs inputs_;
  Losses losses_;

  Executable* read_ = nullptr;  // source of logits(); null if none
  ViewSum view_sum_;            // exists after an inference with several views

  WorkMeter meter_;                 // meter of the replica's thread
  WorkQueue queue_{"cpu replica"};  // last: its thread must end before the members it uses
};

}  // namespace

std::unique_ptr<Replica> make_replica(const Network& network, const CompileOptions& options, const DeviceOptions& device,
                                      const PrimitiveChecks& checks) {
  return std::make_unique<CpuReplica>(network, options, device, checks);
}

}  // namespace millrace::cpu
