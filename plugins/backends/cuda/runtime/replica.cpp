// A network on one GPU, written only against Machine and Queue.
//
// Three queues: `copy` loads batches (staging.h), `compute` runs ingest, forward, loss and backward, `update` the optimizer
// (ParameterQueue). On the host, only read(), write(), logits() and finish(), and the caller of Event::wait() wait.
//
// start() ends with a rehearsal: one pass over zeros, so that the driver and the libraries have loaded their kernels before a
// run's clock starts.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backend.h"
#include "device_meter.h"
#include "executable.h"
#include "losses.h"
#include "millrace/backend/executables.h"
#include "millrace/error.h"
#include "parameter_store.h"
#include "staging.h"
#include "trace.h"

namespace millrace::cuda {
namespace {

// Turns a share of a batch into a network's input: copies its bytes to the device (staging.h), then ingest applies the
// augmentation records, normalises and lays out. Only the constructor and drain() wait for the device.
class BatchInput {
 public:
  // `staging`: for the same machine. Allocates the table of pixel values, and fills it through `compute`.
  BatchInput(Machine& machine, const Network& network, std::unique_ptr<Staging> staging, Queue& compute)
      : compute_(compute), staging_(std::move(staging)) {
    std::vector<float> values;
    for (std::size_t c = 0; c < network.mean.size(); ++c) {
      for (int byte = 0; byte < 256; ++byte) {
        values.push_back(static_cast<float>((byte / 255.0 - network.mean[c]) / network.deviation[c]));
      }
    }
    pixel_table_ = DeviceMemory(machine, values.size() * sizeof(float), "table of pixel values");
    upload(machine, compute_, pixel_table_.data(), values);
  }

  // Submits the copy, and makes `compute` wait for it.
  void load(const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count) {
    staged_ = staging_->load(compute_, batch, begin, count);
  }

  // Submits ingest of the last loaded batch with this view.
  void ingest(const Map& to, const View& view) {
    with_type(to.spec.type, [&]<class T>(T) {
      compute_.run(Ingest<T>{.pixels = staged_.pixels,
                             .records = staged_.records,
                             .index = staged_.image_of,
                             .table = pixel_table(),
                             .out = to.as<T>(),
                             .samples = staged_.images,
                             .count = staged_.count,
                             .image_height = staged_.image.height,
                             .image_width = staged_.image.width,
                             .channels = staged_.image.channels,
                             .window_height = staged_.window.height,
                             .window_width = staged_.window.width,
                             .dx = view.dx,
                             .dy = view.dy,
                             .flip_x = view.flip_x,
                             .border = view.border});
    });
  }

  // Call once all readers of the last loaded batch are submitted.
  void release() { staging_->release(compute_); }

  const StagedBatch& staged() const { return staged_; }  // the last loaded batch
  const float* pixel_table() const {
    return pixel_table_.as<float>();
  }  // device memory, (channels, 256): normalised values of bytes
  void drain() { staging_->finish(); }

 private:
  Queue& compute_;
  const std::unique_ptr<Staging> staging_;
  DeviceMemory pixel_table_;
  StagedBatch staged_;
};

// Shortcuts are only for training.
Shortcuts supported_shortcuts(Machine& machine, const CompileOptions& options) {
  Shortcuts wanted = Shortcuts::from_environment();
  wanted.recordings = wanted.recordings && options.graphs && !options.time_layers;
  if (options.train_batch > 0) wanted.recordings = wanted.recordings && recordings_work(machine);
  return wanted;
}

// The network compiled for training and for inference, and the device memory of its executables.
class CompiledNetwork {
 public:
  // Plans for full batches, and finishes planning `parameters`, whose layouts these executables choose. Throws the errors of
  // Executable. The arguments must outlive this object.
  CompiledNetwork(Machine& machine, const Network& network, const CompileOptions& options, ParameterStore& parameters)
      : machine_(machine), executables_(network, options) {
    CompileContext context{executables_.network(), options, parameters, machine, supported_shortcuts(machine, options)};
    const auto fused = [&](std::vector<LayerPort> outputs) {
      return fuse(network, {.backend = "cuda", .pool_behind_relu = context.shortcuts.norm_pool, .outputs = std::move(outputs)});
    };
    executables_.compile(context, fused(options.request.loss_outputs(network)), fused(options.request.outputs));
    parameters.finish_planning(machine);
    bucket_nodes_ = first_nodes(network, executables_.nodes(true), parameters.plan().parameters.buckets());
    if (options.time_layers) layer_meter_ = std::make_unique<DeviceMeter>(machine, TraceRequest::kMaxSpans);
  }

  // Allocates. REQUIRES: the memory of the parameters. `drain` waits for all submitted work.
  void start(const std::function<void()>& drain) {
    CompileContext& context = executables_.context();
    scalars_ = DeviceMemory(machine_, sizeof(StepScalars), "step");
    context.scalars = scalars();
    tickets_ = DeviceMemory(machine_, context.ticket_bytes, "tickets of sums");
    context.tickets = tickets_.as<std::uint32_t>();
    context.layers = layer_meter_.get();
    executables_.start(drain, [this, drain](std::size_t bytes) {
      if (bytes > arena_.bytes()) {
        if (arena_.bytes() > 0) drain();
        arena_ = DeviceMemory();
        arena_ = DeviceMemory(machine_, bytes, "activations, their gradients and workspaces");
      }
      return arena_.data();
    });
  }

  Executables<Executable>& executables() { return executables_; }
  std::size_t arena_bytes() const { return executables_.arena_bytes(); }
  const Shortcuts& shortcuts() const { return executables_.context().shortcuts; }  // those that the device supports
  // By bucket: the first node in forward order, so the last of backward, with gradients in it.
  const std::vector<int>& bucket_nodes() const { return bucket_nodes_; }
  StepScalars* scalars() const { return scalars_.as<StepScalars>(); }  // device memory: a step's values for passes

  // One pass over zeros that changes no running statistics, so that the driver and the libraries load their kernels.
  void rehearse(Executable& network, Queue& queue) {
    CompileContext& context = executables_.context();
    context.rehearsal = true;
    network.begin(queue);
    queue.zero(network.input().data, network.input().spec.bytes());
    network.forward(queue);
    if (&network == executables_.full(true)) {
      for (const auto& each : network.plan().measured()) queue.zero(each.d_output().data, each.d_output().spec.bytes());
      network.backward(queue, [](int) {});
    }
    context.rehearsal = false;
  }

  std::string engines() const {  // for full batches, by layer
    std::string text;
    for (const bool training : {true, false}) {
      if (const Executable* network = executables_.full(training)) text += network->describe();
    }
    return text;
  }

  bool times_layers() const { return layer_meter_ != nullptr; }
  std::vector<LayerTime> layer_times() const {  // REQUIRES: times_layers(), and all work is complete
    std::vector<LayerTime> times = executables_.layer_times();
    for (const WorkSpan& span : layer_meter_->spans()) {
      const auto layer = std::ranges::find(times, span.queue, &LayerTime::layer);
      if (layer == times.end()) continue;
      const bool forward = span.what == Executable::kForward;
      (forward ? layer->forward : layer->backward) += span.end - span.begin;
      layer->passes += forward ? 1 : 0;
    }
    return times;
  }

 private:
  Machine& machine_;
  Executables<Executable> executables_;
  std::vector<int> bucket_nodes_;
  DeviceMemory arena_, scalars_, tickets_;
  std::unique_ptr<DeviceMeter> layer_meter_;  // with CompileOptions::time_layers: a span for each layer of a pass
};

// Submits forward and backward of training steps.
//
// If recordings work on the device (shortcuts.h), the passes of an executable are recorded once, then launched: forward, and
// backward with a separate mark for each bucket. Ingest, loss and update, whose arguments change from step to step, are not
// recorded. A pass that cannot be recorded is submitted kernel by kernel, after one warning. Nothing here waits for the device.
class TrainingPasses {
 public:
  using BucketFilled = std::function<void(int bucket, Ref<Mark> filled)>;

  // `bucket_nodes`: see CompiledNetwork. All arguments must outlive this object.
  TrainingPasses(Machine& machine, Queue& queue, const std::vector<int>& bucket_nodes, bool records)
      : machine_(machine), queue_(queue), bucket_nodes_(bucket_nodes), records_(records) {}

  // Records both passes of an executable, whose kernels a rehearsal has loaded. `buckets`: as in backward().
  void record(Executable& network, int buckets) {
    ++network.passes;
    if (records_) record_forward(network);
    if (records_) record_backward(network, buckets);
  }

  void forward(Executable& network) {
    if (!network.recorded.forward && wants_recording(network)) record_forward(network);
    if (network.recorded.forward)
      queue_.launch(*network.recorded.forward);
    else
      network.forward(queue_);
  }

  // Calls `filled` for each of the first `buckets` buckets, in order, with the mark of the work that fills it.
  void backward(Executable& network, int buckets, const BucketFilled& filled) {
    Executable::Recorded& recorded = network.recorded;
    if (!recorded.backward && wants_recording(network)) record_backward(network, buckets);
    ++network.passes;
    if (!recorded.backward) {
      submit_backward(network, buckets, [&](int bucket) { filled(bucket, queue_.mark()); });
      return;
    }
    queue_.launch(*recorded.backward);
    for (int bucket = 0; bucket < buckets; ++bucket) filled(bucket, recorded.filled[static_cast<std::size_t>(bucket)]);
  }

 private:
  // Libraries load their kernels in an executable's first pass, which must not be recorded.
  bool wants_recording(const Executable& network) const { return records_ && network.passes > 0; }

  // The work that `pass` submits; null, with a warning, if it cannot be recorded: then recording is disabled.
  std::unique_ptr<Recording> recording_of(const std::function<void()>& pass) {
    try {
      queue_.begin_recording();
      pass();
      return queue_.end_recording();
    } catch (const Error& error) {
      machine_.warn(fmt::format("{}: steps are submitted kernel by kernel, since they cannot be recorded: {}",
                                machine_.info().name, error.what()));
      records_ = false;
      return nullptr;
    }
  }

  void record_forward(Executable& network) {
    network.recorded.forward = recording_of([&] { network.forward(queue_); });
  }

  void record_backward(Executable& network, int buckets) {
    Executable::Recorded& recorded = network.recorded;
    recorded.filled.clear();
    recorded.backward =
        recording_of([&] { submit_backward(network, buckets, [&](int) { recorded.filled.push_back(queue_.recorded_mark()); }); });
  }

  // Submits the gradients, and calls `filled` for each bucket once its last work is submitted.
  void submit_backward(Executable& network, int buckets, const std::function<void(int bucket)>& filled) {
    int next = 0;
    network.backward(queue_, [&](int node) {
      while (next < buckets && bucket_nodes_[static_cast<std::size_t>(next)] >= node) filled(next++);
    });
    while (next < buckets) filled(next++);
  }

  Machine& machine_;
  Queue& queue_;
  const std::vector<int>& bucket_nodes_;
  bool records_;
};

// Work on parameters outside of passes, on a separate queue, and what waits for what:
//
//   an update of a bucket   for the caller's event, and for the backward that fills the bucket
//   a forward               for the last work on parameters
//   a backward              for the last sum with kept gradients
//
// An update thus runs under the backward of the layers before it. Only drain(), read() and write() wait for the device.
class ParameterQueue {
 public:
  // `passes`: the queue of forward and backward. All must outlive this object.
  ParameterQueue(Machine& machine, ParameterStore& parameters, Queue& passes, DeviceMeter& meter)
      : parameters_(parameters),
        passes_(passes),
        meter_(meter),
        queue_(machine.make_queue("update")),
        filled_(parameters.plan().parameters.buckets().size()) {}

  // ---- Called by passes ----
  void before_forward() {
    if (update_is_new_) passes_.wait(updated_);
    update_is_new_ = false;
  }

  void before_backward() {
    adds_ = std::exchange(kept_, false);
    passes_.wait(added_);
  }

  // The bucket's gradients, and those of all later buckets, are filled at this mark. Returns the mark at which update() may use
  // them: later if kept gradients are added first.
  Ref<Mark> filled(int bucket, const Ref<Mark>& mark) {
    std::fill(filled_.begin() + bucket, filled_.end(), mark);  // buckets omitted in this epoch are among the later ones
    if (!adds_) return mark;
    queue_->wait(mark);
    parameters_.add_kept_gradients(*queue_, bucket);
    return added_ = queue_->mark();
  }

  // ---- Requests to the replica; see Replica ----
  Ref<Event> update(int bucket, const UpdateStep& step, const Ref<Event>& after) {
    queue_->wait(after);
    queue_->wait(filled_[static_cast<std::size_t>(bucket)]);  // for any `after`, backward still reads the weights until then
    {
      const DeviceMeter::Piece piece(&meter_, *queue_, "update", "optimizer", &DeviceTimes::update);
      parameters_.update(*queue_, bucket, step);
    }
    return mark_updated();
  }

  // The next backward adds to them.
  void keep_gradients() {
    passes_.wait(added_);
    parameters_.keep_gradients(passes_);
    kept_ = true;
  }

  Ref<Event> lerp_into(std::string_view copy, double decay, bool write_back) {
    // Reading only needs forward to be done; otherwise all passes must have read the weights, including inference.
    if (write_back && decay != 0) {
      queue_->wait(passes_.mark());
    } else if (!filled_.empty()) {
      queue_->wait(filled_.front());
    }
    parameters_.lerp_into(*queue_, copy, decay, write_back);
    return mark_updated();
  }

  Ref<Event> swap_with(std::string_view copy) {
    queue_->wait(passes_.mark());  // passes read the values
    parameters_.swap_with(*queue_, copy);
    return mark_updated();
  }

  std::vector<float> read(std::string_view state, int parameter) { return parameters_.read(*queue_, state, parameter); }
  void write(std::string_view state, int parameter, std::span<const float> values) {
    parameters_.write(*queue_, state, parameter, values);
  }
  std::unique_ptr<Snapshot> capture(std::span<const StateOf> states) { return parameters_.capture(*queue_, states); }

  void drain() { queue_->mark()->wait(); }

 private:
  Ref<Event> mark_updated() {
    update_is_new_ = true;
    return updated_ = queue_->mark();
  }

  ParameterStore& parameters_;
  Queue& passes_;
  DeviceMeter& meter_;
  const std::unique_ptr<Queue> queue_;
  std::vector<Ref<Mark>> filled_;  // by bucket, from the last backward, which no longer reads its weights then
  Ref<Mark> updated_;              // the last work on parameters
  bool update_is_new_ = false;     // no forward has waited for it yet
  Ref<Mark> added_;                // the last sum with kept gradients; null: none
  bool kept_ = false;              // gradients are kept for the next backward
  bool adds_ = false;              // the current backward adds to them
};

// The weighted sum of a network's outputs for several views of the same images (test-time augmentation), in float32.
class ViewSum {
 public:
  // `output`: the network's, for the maximum number of samples. `wanted`: views were requested when the network was compiled; a
  // sum of vectors is small enough to exist in any case.
  ViewSum(Machine& machine, const MapSpec& output, bool wanted)
      : machine_(machine),
        largest_bytes_(output.bytes()),
        planned_bytes_(wanted || output.height * output.width == 1 ? largest_bytes_ : 0) {}

  std::size_t bytes() const { return planned_bytes_; }

  void start() { memory_ = DeviceMemory(machine_, planned_bytes_, kWhat); }

  // The destination of add() for outputs like this one.
  Map begin(const Map& output) {
    Map sum = output;
    sum.spec.type = DataType::f32;
    if (memory_.bytes() < sum.spec.bytes()) memory_ = DeviceMemory(machine_, largest_bytes_, kWhat);  // views were not announced
    sum.data = memory_.data();
    is_empty_ = true;
    return sum;
  }

  void add(Queue& queue, const Map& output, const View& view) {
    with_type(output.spec.type, [&](auto type) {
      AddLogits<decltype(type)> add;
      add.logits = output.as<decltype(type)>();
      add.total = memory_.as<float>();
      add.rows = output.spec.n * output.spec.height;
      add.width = output.spec.width;
      add.row_packs = output.spec.row_packs();
      add.weight = static_cast<float>(view.weight);
      add.mirrored = view.flip_x;
      add.first = std::exchange(is_empty_, false);
      queue.run(add);
    });
  }

 private:
  Machine& machine_;
  static constexpr const char* kWhat = "logits of several views";
  const std::size_t largest_bytes_, planned_bytes_;
  DeviceMemory memory_;
  bool is_empty_ = true;  // the next output is the first
};

// Refuses requests that this backend cannot compute.
const CompileOptions& supported(const CompileOptions& options) {
  if (!options.request.gradients.empty()) {
    fail(ErrorKind::usage, "backend 'cuda' computes no gradients of scores in inference; 'cpu' does: run with --devices cpu");
  }
  const bool meets = options.request.sync_batch_norm && options.all_gather != nullptr && options.all_gather->replicas() > 1;
  if (meets) fail(ErrorKind::usage, "sync_batch_norm: backend 'cuda' cannot share the statistics of several replicas; 'cpu' can");
  return options;
}

// Planned, used and free memory, and what would fit. `by_samples`: bytes of the plan that grow with the batch.
std::string memory_advice(const MemoryPlan& plan, std::size_t by_samples, std::uint32_t samples, std::size_t total,
                          std::size_t free) {
  const auto mebibytes = [](std::size_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); };
  const std::size_t fixed = plan.total() - by_samples;
  const double share = static_cast<double>(free - std::min(free, fixed)) / static_cast<double>(by_samples);
  const auto fits = static_cast<std::uint32_t>(share * samples);
  return fmt::format("For batches of {}, {} are planned; of the {} there, {} are used and {} free: {}", samples,
                     mebibytes(plan.total()), mebibytes(total), mebibytes(total - std::min(free, total)), mebibytes(free),
                     fits > 0 ? fmt::format("batches of about {} fit", fits) : "not even a batch of one fits");
}

// Smaller sample counts are computed exactly, not padded: the first step with a new count compiles for it. Errors of work on the
// device are thrown by finish(), read() and write(), and by any call that the driver refuses afterwards.
class GpuReplica final : public Replica, public MeasuresDevice {
 public:
  GpuReplica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options)
      : machine_(std::move(machine)),
        network_(network),
        options_(supported(options)),
        parameters_(network_, options_),
        compiled_(*machine_, network_, options_, parameters_),
        losses_(*machine_, network_, options_.request.losses, most_samples()),
        view_sum_(*machine_, MapSpec::of(network_.output(), most_samples(), DataType::f32), options_.request.sums_views),
        trace_(TraceRequest::from_environment()),
        meter_(std::make_unique<DeviceMeter>(*machine_, trace_.wants_spans() ? TraceRequest::kMaxSpans : 0)) {
    check_fit(options_.resident_sets, memory_plan(), machine_->info());
  }

  ~GpuReplica() override {
    try {
      if (!input_) return;
      drain();
      losses_.deliver();
      if (trace_.wants_spans()) trace_.finish(*machine_, meter_->spans(), compiled_.engines());
    } catch (const Error&) {  // finish() reports these errors
    }
  }

  MemoryPlan memory_plan() const override {
    MemoryPlan plan;
    parameters_.append_to(plan);
    plan.items.push_back({"activations, their gradients and workspaces", compiled_.arena_bytes()});
    plan.items.push_back({"batches on their way to the device", bytes_by_samples() - compiled_.arena_bytes()});
    for (const ResidentSet& set : options_.resident_sets) plan.items.push_back(ResidentImages::plan(set));
    plan.items.push_back({"losses and their targets", view_sum_.bytes() + losses_.device_bytes()});
    for (MemoryPlan::Item& item : plan.items) item.on_device = true;
    return plan;
  }

  std::string plans() const override { return machine_->plans(PlanChoice::of(options_)); }

  void start() override {
    const std::size_t free = machine_->free_memory();
    try {
      allocate();
    } catch (const Error& error) {
      const MemoryPlan plan = memory_plan();
      if (error.kind() != ErrorKind::device || plan.total() <= free) throw;
      fail(ErrorKind::device, "{}. {}", error.message(),
           memory_advice(plan, bytes_by_samples(), most_samples(), machine_->info().memory, free));
    }
    for (const bool training : {true, false}) {
      Executable* const network = compiled_.executables().full(training);
      if (network == nullptr) continue;
      compiled_.rehearse(*network, *compute_);
      if (training) passes_->record(*network, filled_buckets_of(0));
    }
    finish();
  }

  const std::vector<Bucket>& buckets() const override { return parameters_.plan().parameters.buckets(); }

  void ingest(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count) override {
    forget_pass();  // its results are in the arena, which may move
    first_sample_ = batch->first_slot + begin;
    filled_buckets_ = filled_buckets_of(batch->epoch);
    if (count == 0) return;
    Executable& network = compiled_.executables().training(count, batch->epoch);
    input_->load(batch, begin, count);
    const DeviceMeter::Piece piece(meter_.get(), *compute_, "compute", "ingest", &DeviceTimes::training);
    network.begin(*compute_);
    input_->ingest(network.input(), View{});
    training_ = &network;
  }

  void forward(std::uint64_t step) override {
    result_ = {};
    inferred_ = nullptr;
    updates_->before_forward();
    if (training_ == nullptr) return;
    result_ = training_->output();
    SetScalars scalars;
    scalars.values = {step, first_sample_};
    scalars.out = compiled_.scalars();
    const DeviceMeter::Piece piece(meter_.get(), *compute_, "compute", "forward", &DeviceTimes::training);
    compute_->run(scalars);
    passes_->forward(*training_);
    training_->begin_loss(*compute_);
  }

  Ref<Event> losses(std::span<const LossTerm> terms) override {
    if (training_ == nullptr) {
      for (const LossTerm& term : terms) losses_.clear(term);
      return compute_->mark();
    }
    const DeviceMeter::Piece piece(meter_.get(), *compute_, "compute", "loss", &DeviceTimes::training);
    Ref<Event> known;
    const auto run = [&](const LossTerm& term, const auto& at, bool add) {
      known = losses_.run(*compute_, term, {at.output(), &at.d_output(), add}, input_->staged(), input_->pixel_table());
    };
    training_->plan().measure(terms, run, [&](const Map& gradient) { compute_->zero(gradient.data, gradient.spec.bytes()); });
    input_->release();
    return known != nullptr ? known : compute_->mark();
  }

  void backward(BucketReady ready) override {
    updates_->before_backward();
    const auto announce = [&](int bucket, const Ref<Mark>& mark) { ready(bucket, updates_->filled(bucket, mark)); };
    if (training_ == nullptr) {
      parameters_.zero_gradients(*compute_);
      const Ref<Mark> mark = compute_->mark();
      for (int bucket = 0; bucket < filled_buckets_; ++bucket) announce(bucket, mark);
      return;
    }
    const DeviceMeter::Piece piece(meter_.get(), *compute_, "compute", "backward", &DeviceTimes::training);
    passes_->backward(*training_, filled_buckets_, announce);
  }

  Ref<Event> update(int bucket, const UpdateStep& step, const Ref<Event>& after) override {
    return updates_->update(bucket, step, after);
  }
  void keep_gradients() override { updates_->keep_gradients(); }
  Ref<Event> lerp_into(std::string_view copy, double decay, bool write_back) override {
    return updates_->lerp_into(copy, decay, write_back);
  }
  Ref<Event> swap_with(std::string_view copy) override { return updates_->swap_with(copy); }

  Ref<Event> infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                   const std::shared_ptr<const Loss>& loss, StepSums& sums) override {
    forget_pass();  // also the training pass that shares the arena
    updates_->before_forward();
    if (count == 0) {
      if (loss != nullptr) losses_.clear({loss, 1, &sums});
      return compute_->mark();
    }
    const View plain;
    const std::span<const View> looks = views.empty() ? std::span<const View>(&plain, 1) : views;
    check_views(network_, looks);
    const bool one = is_one_view(looks);
    Executable& network = compiled_.executables().inference(count);
    input_->load(batch, begin, count);
    const DeviceMeter::Piece piece(meter_.get(), *compute_, "compute", "inference", &DeviceTimes::inference);
    result_ = one ? network.output() : view_sum_.begin(network.output());
    inferred_ = &network;
    for (const View& view : looks) {
      network.begin(*compute_);
      input_->ingest(network.input(), view);
      network.forward(*compute_);
      if (!one) view_sum_.add(*compute_, network.output(), view);
    }
    Ref<Event> known;
    if (loss == nullptr)
      known = compute_->mark();
    else
      known = losses_.run(*compute_, {loss, 1, &sums}, {result_}, input_->staged(), input_->pixel_table());
    input_->release();
    return known;
  }

  Ref<Event> read_outputs(std::span<const OutputCopy> copies) override {
    for (const OutputCopy& copy : copies) {
      if (inferred_ == nullptr) break;
      const Executable::Kept& kept = inferred_->kept(copy.value);
      const Map& map = copy.value == network_.result() ? result_ : kept.map;
      with_type(map.spec.type, [&](auto type) {
        Unpack<decltype(type)> unpack;
        unpack.x = map.as<decltype(type)>();
        unpack.y = kept.rows;
        unpack.at = {map.spec.n, map.spec.height * map.spec.width, map.spec.channels};
        compute_->run(unpack);
        compute_->copy_out(copy.host, kept.rows, static_cast<std::size_t>(unpack.size()) * sizeof(float));
      });
    }
    return compute_->mark();
  }

  std::vector<float> logits() override {
    if (result_.data == nullptr) return {};
    const MapSpec& spec = result_.spec;
    const HostMemory host(*machine_, spec.bytes());
    compute_->copy_out(host.data(), result_.data, host.bytes());
    compute_->mark()->wait();
    machine_->host_access(host.data(), host.bytes(), false);
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(spec.n * spec.channels * spec.height * spec.width));
    const std::int64_t pixels = spec.height * spec.width;
    for (std::int64_t n = 0; n < spec.n; ++n) {
      for (std::int64_t c = 0; c < spec.channels; ++c) {
        for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
          const auto at = static_cast<std::size_t>((n * pixels + pixel) * spec.pitch() + c);
          values.push_back(spec.type == DataType::bf16 ? to_float(reinterpret_cast<const Bf16*>(host.data())[at])
                                                       : reinterpret_cast<const float*>(host.data())[at]);
        }
      }
    }
    return values;
  }

  std::vector<LayerTime> layer_times() override {
    if (!compiled_.times_layers()) return {};
    finish();
    return compiled_.layer_times();
  }

  std::vector<std::string> states() const override { return parameters_.plan().states.names(); }
  std::optional<Shape> state_shape(std::string_view state, int parameter) const override {
    return parameters_.plan().states.shape(state, parameter);
  }

  std::vector<float> read(std::string_view state, int parameter) override {
    finish();
    return updates_->read(state, parameter);
  }

  std::unique_ptr<Snapshot> capture(std::span<const StateOf> states) override { return updates_->capture(states); }

  void write(std::string_view state, int parameter, std::span<const float> values) override {
    finish();
    updates_->write(state, parameter, values);
  }

  void finish() override {
    drain();
    losses_.deliver();
    machine_->finish();
  }

  DeviceTimes device_times() const override { return meter_->times(); }

 private:
  std::uint32_t most_samples() const { return std::max(options_.train_batch, options_.infer_batch); }
  TargetNeeds target_needs() const { return TargetNeeds::of(network_, options_.request.losses); }

  // The device memory that grows with the batch: nearly all of it.
  std::size_t bytes_by_samples() const {
    return compiled_.arena_bytes() + Staging::device_bytes(most_samples(), network_.input, target_needs());
  }

  void allocate() {
    compute_ = machine_->make_queue("compute");
    parameters_.start(*machine_);
    updates_.emplace(*machine_, parameters_, *compute_, *meter_);
    losses_.start();
    view_sum_.start();
    compiled_.start([this] { drain(); });
    passes_.emplace(*machine_, *compute_, compiled_.bucket_nodes(), compiled_.shortcuts().recordings);
    auto staging = std::make_unique<Staging>(*machine_, most_samples(), network_.input, target_needs(), options_.resident_sets,
                                             meter_.get());
    input_.emplace(*machine_, network_, std::move(staging), *compute_);
  }

  int filled_buckets_of(std::uint64_t epoch) const { return static_cast<int>(filled_buckets(buckets(), epoch)); }

  // Called at the beginning of the next pass.
  void forget_pass() {
    training_ = inferred_ = nullptr;
    result_ = {};
  }

  // Waits for all queues.
  void drain() {
    input_->drain();
    compute_->mark()->wait();
    updates_->drain();
  }

  const std::shared_ptr<Machine> machine_;
  const Network network_;
  const CompileOptions options_;
  ParameterStore parameters_;
  CompiledNetwork compiled_;
  Losses losses_;
  ViewSum view_sum_;
  const TraceRequest trace_;
  const std::unique_ptr<DeviceMeter> meter_;

  // Created by start().
  std::unique_ptr<Queue> compute_;
  std::optional<TrainingPasses> passes_;
  std::optional<ParameterQueue> updates_;
  std::optional<BatchInput> input_;

  // The current pass.
  Executable* training_ = nullptr;  // the training executable; null without samples
  Executable* inferred_ = nullptr;  // source of read_outputs(); null: none
  Map result_;                      // source of logits(); no data: none
  std::uint64_t first_sample_ = 0;
  int filled_buckets_ = 0;  // buckets that its backward fills
};

}  // namespace

std::unique_ptr<Replica> make_replica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options) {
  return std::make_unique<GpuReplica>(std::move(machine), network, options);
}

}  // namespace millrace::cuda
