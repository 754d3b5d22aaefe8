#include "replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

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

}  // namespace

std::unique_ptr<Replica> make_replica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options) {
  return std::make_unique<GpuReplica>(std::move(machine), network, options);
}

GpuReplica::GpuReplica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options)
    : machine_(std::move(machine)),
      network_(network),
      options_(supported(options)),
      parameters_(network_, options_),
      compiled_(*machine_, network_, options_, parameters_),
      losses_(*machine_, network_, options_.request.losses, most_samples()),
      view_sum_(*machine_, MapSpec::of(network_.output(), most_samples(), DataType::f32), options_.request.sums_views),
      meter_(std::make_unique<DeviceMeter>(*machine_)) {
  check_fit(options_.resident_sets, memory_plan(), machine_->info());
}

GpuReplica::~GpuReplica() {
  try {
    if (!input_) return;
    drain();
    losses_.deliver();
    if (trace_) trace_->finish(compiled_.engines());
  } catch (const Error&) {  // finish() reports these errors
  }
}

std::size_t GpuReplica::bytes_by_samples() const {
  return compiled_.arena_bytes() + Staging::device_bytes(most_samples(), network_.input, target_needs());
}

MemoryPlan GpuReplica::memory_plan() const {
  MemoryPlan plan;
  parameters_.append_to(plan);
  plan.items.push_back({"activations, their gradients and workspaces", compiled_.arena_bytes()});
  plan.items.push_back({"batches on their way to the device", bytes_by_samples() - compiled_.arena_bytes()});
  for (const ResidentSet& set : options_.resident_sets) plan.items.push_back(ResidentImages::plan(set));
  plan.items.push_back({"losses and their targets", view_sum_.bytes() + losses_.device_bytes()});
  for (MemoryPlan::Item& item : plan.items) item.on_device = true;
  return plan;
}

void GpuReplica::allocate() {
  compute_ = machine_->make_queue("compute");
  trace_ = StepTrace::from_environment(*machine_);
  parameters_.start(*machine_);
  updates_.emplace(*machine_, parameters_, *compute_, *meter_, trace_.get());
  losses_.start();
  view_sum_.start();
  compiled_.start([this] { drain(); });
  passes_.emplace(*machine_, *compute_, compiled_.bucket_nodes(), compiled_.shortcuts().recordings);
  auto staging = std::make_unique<Staging>(*machine_, most_samples(), network_.input, target_needs(), options_.resident_sets,
                                           trace_.get(), meter_.get());
  input_.emplace(*machine_, network_, std::move(staging), *compute_);
}

void GpuReplica::start() {
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
    Executable* const network = compiled_.full(training);
    if (network == nullptr) continue;
    compiled_.rehearse(*network, *compute_);
    if (training) passes_->record(*network, filled_buckets_of(0));
  }
  finish();
}

void GpuReplica::forget_pass() {
  training_ = inferred_ = nullptr;
  result_ = {};
}

void GpuReplica::ingest(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count) {
  forget_pass();  // its results are in the arena, which may move
  first_sample_ = batch->first_slot + begin;
  filled_buckets_ = filled_buckets_of(batch->epoch);
  if (count == 0) return;
  Executable& network = compiled_.training(count, batch->epoch);
  input_->load(batch, begin, count);
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "ingest");
  const DeviceMeter::Piece measured(meter_.get(), *compute_, &DeviceTimes::training);
  network.begin(*compute_);
  input_->ingest(network.input(), View{});
  training_ = &network;
}

void GpuReplica::forward(std::uint64_t step) {
  result_ = {};
  inferred_ = nullptr;
  updates_->before_forward();
  if (training_ == nullptr) return;
  result_ = training_->output();
  SetScalars scalars;
  scalars.values = {step, first_sample_};
  scalars.out = compiled_.scalars();
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "forward");
  const DeviceMeter::Piece measured(meter_.get(), *compute_, &DeviceTimes::training);
  compute_->run(scalars);
  passes_->forward(*training_);
  training_->begin_loss(*compute_);
}

// The first term at a value writes its gradient, the others add to it.
Ref<Event> GpuReplica::losses(std::span<const LossTerm> terms) {
  if (training_ == nullptr) {
    for (const LossTerm& term : terms) losses_.clear(term);
    return compute_->mark();
  }
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "loss");
  const DeviceMeter::Piece measured(meter_.get(), *compute_, &DeviceTimes::training);
  const std::span<const Executable::Measured> all = training_->measured();
  std::vector<bool> written(all.size());
  Ref<Event> known;
  for (const LossTerm& term : terms) {
    const std::size_t i = training_->find_measured(term.output.value_or(network_.result()));
    const Losses::At at{all[i].output(), &all[i].d_output(), written[i]};
    known = losses_.run(*compute_, term, at, input_->staged(), input_->pixel_table());
    written[i] = true;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!written[i]) compute_->zero(all[i].d_output().data, all[i].d_output().spec.bytes());
  }
  input_->release();
  return known != nullptr ? known : compute_->mark();
}

void GpuReplica::backward(BucketReady ready) {
  updates_->before_backward();
  const auto announce = [&](int bucket, const Ref<Mark>& mark) { ready(bucket, updates_->filled(bucket, mark)); };
  if (training_ == nullptr) {
    parameters_.zero_gradients(*compute_);
    const Ref<Mark> mark = compute_->mark();
    for (int bucket = 0; bucket < filled_buckets_; ++bucket) announce(bucket, mark);
    return;
  }
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "backward");
  const DeviceMeter::Piece measured(meter_.get(), *compute_, &DeviceTimes::training);
  passes_->backward(*training_, filled_buckets_, announce);
}

Ref<Event> GpuReplica::infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                             const std::shared_ptr<const Loss>& loss, StepSums& sums) {
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
  Executable& network = compiled_.inference(count);
  input_->load(batch, begin, count);
  const DeviceMeter::Piece measured(meter_.get(), *compute_, &DeviceTimes::inference);
  result_ = one ? network.output() : view_sum_.begin(network.output());
  inferred_ = &network;
  for (const View& view : looks) {
    network.begin(*compute_);
    input_->ingest(network.input(), view);
    network.forward(*compute_);
    if (!one) view_sum_.add(*compute_, network.output(), view);
  }
  return measure_result(loss, sums);
}

// Measures the result of inference.
Ref<Event> GpuReplica::measure_result(const std::shared_ptr<const Loss>& loss, StepSums& sums) {
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "loss");
  Ref<Event> known;
  if (loss == nullptr)
    known = compute_->mark();
  else
    known = losses_.run(*compute_, {loss, 1, &sums}, {result_}, input_->staged(), input_->pixel_table());
  input_->release();
  return known;
}

Ref<Event> GpuReplica::read_outputs(std::span<const OutputCopy> copies) {
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

std::vector<float> GpuReplica::logits() {
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

std::vector<LayerTime> GpuReplica::layer_times() {
  if (!compiled_.times_layers()) return {};
  finish();
  return compiled_.layer_times();
}

std::vector<float> GpuReplica::read(std::string_view state, int parameter) {
  finish();
  return updates_->read(state, parameter);
}

void GpuReplica::write(std::string_view state, int parameter, std::span<const float> values) {
  finish();
  updates_->write(state, parameter, values);
}

void GpuReplica::drain() {
  input_->drain();
  compute_->mark()->wait();
  updates_->drain();
}

void GpuReplica::finish() {
  drain();
  losses_.deliver();
  machine_->finish();
}

}  // namespace millrace::cuda
