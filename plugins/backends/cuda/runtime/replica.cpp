#include "replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr int kPassesBeforeRecording = 1;  // libraries load their kernels in the first pass, which must not be recorded

}  // namespace

std::unique_ptr<Replica> make_replica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options) {
  return std::make_unique<GpuReplica>(std::move(machine), network, options);
}

GpuReplica::GpuReplica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options)
    : machine_(std::move(machine)),
      network_(network),
      options_(options),
      parameters_(network_, options_),
      phases_(network_, options_.request),
      workshops_(1, {phases_.network(0), options_, parameters_, *machine_, choose_shortcuts()}),
      nodes_(fuse_for(options.request.loss_outputs(network_))),
      infer_nodes_(fuse_for(options.request.outputs)),
      most_samples_(std::max(options.train_batch, options.infer_batch)),
      graphs_(workshops_.front().shortcuts.recordings),
      losses_(*machine_, network_, options_.request.losses, most_samples_),
      meter_(std::make_unique<DeviceMeter>(*machine_)) {
  executables_.compile(options_, [this](const auto& use) {
    return std::make_unique<Executable>(workshop_of(use.phase), use.training ? nodes_ : infer_nodes_, use.samples, use.training);
  });
  refuse_request();
  parameters_.finish_planning(*machine_);
  bucket_node_ = first_nodes(network_, nodes_, parameters_.buckets());
  check_fit(options_.resident_sets, memory_plan(), machine_->info());
}

void GpuReplica::refuse_request() const {
  if (!options_.request.gradients.empty()) {
    fail(ErrorKind::usage, "backend 'cuda' computes no gradients of scores in inference; 'cpu' does: run with --devices cpu");
  }
  const bool meets = options_.request.sync_batch_norm && options_.all_gather != nullptr && options_.all_gather->replicas() > 1;
  if (!meets) return;
  fail(ErrorKind::usage, "sync_batch_norm: backend 'cuda' cannot share the statistics of several replicas; 'cpu' can");
}

GpuReplica::~GpuReplica() {
  try {
    if (!staging_) return;
    drain();
    losses_.deliver();
    if (trace_) trace_->finish(engines());
  } catch (const Error&) {  // finish() reports these errors
  }
}

void GpuReplica::rebind(std::size_t arena_bytes) {
  if (arena_bytes > arena_.bytes()) {
    arena_ = DeviceMemory();
    arena_ = DeviceMemory(*machine_, arena_bytes, "activations, their gradients and workspaces");
  }
  executables_.each([this](Executable& executable) {
    executable.bind(arena_.data());
    executable.recorded_forward = nullptr;
    executable.recorded_backward = nullptr;
  });
}

Executable& GpuReplica::executable(const Executables<Executable>::Use& use) {
  const auto [made, is_new] = executables_.get(use, [this] { drain(); });
  if (!is_new) return made;
  if (made.arena_bytes() > arena_.bytes()) {  // a library may want more workspace for fewer samples, but hardly ever does
    drain();
    rebind(made.arena_bytes());
  } else {
    made.bind(arena_.data());
  }
  return made;
}

void GpuReplica::wait_for_update() {
  if (update_is_new_) compute_->wait(updated_);
  update_is_new_ = false;
}

void GpuReplica::run_ingest(const Executable& to, const StagedBatch& batch, const View& view) {
  with_type(to.input().spec.type, [&]<class T>(T) {
    Ingest<T> kernel;
    kernel.pixels = batch.pixels;
    kernel.records = batch.records;
    kernel.index = batch.image_of;
    kernel.table = table_.as<float>();
    kernel.out = to.input().as<T>();
    kernel.samples = batch.images;
    kernel.count = batch.count;
    kernel.image_height = batch.image.height;
    kernel.image_width = batch.image.width;
    kernel.channels = batch.image.channels;
    kernel.window_height = batch.window.height;
    kernel.window_width = batch.window.width;
    kernel.dx = view.dx;
    kernel.dy = view.dy;
    kernel.flip_x = view.flip_x;
    kernel.border = view.border;
    compute_->run(kernel);
  });
}

void GpuReplica::ingest(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count) {
  current_ = nullptr;
  first_sample_ = batch->first_slot + begin;
  announced_ = static_cast<int>(filled_buckets(buckets(), batch->epoch));
  if (count == 0) return;
  Executable& network = executable({count, true, phases_.at(batch->epoch)});
  staged_ = staging_->load(*compute_, batch, begin, count);
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "ingest");
  const DeviceMeter::Piece measured(meter_.get(), *compute_, &DeviceTimes::training);
  network.begin(*compute_);
  run_ingest(network, staged_, View{});
  current_ = &network;
}

void GpuReplica::forward(std::uint64_t step) {
  read_ = {};
  inferred_ = nullptr;
  wait_for_update();
  if (current_ == nullptr) return;
  read_ = current_->output();
  SetScalars scalars;
  scalars.values = {step, first_sample_};
  scalars.out = scalars_.as<StepScalars>();
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "forward");
  const DeviceMeter::Piece measured(meter_.get(), *compute_, &DeviceTimes::training);
  compute_->run(scalars);
  Executable& network = *current_;
  if (!network.recorded_forward && graphs_ && network.passes >= kPassesBeforeRecording) record_forward(network);
  if (network.recorded_forward)
    compute_->launch(*network.recorded_forward);
  else
    network.forward(*compute_);
  network.begin_loss(*compute_);
}

// The first term at a value writes its gradient, the others add theirs.
Ref<Event> GpuReplica::losses(std::span<const LossTerm> terms) {
  if (current_ == nullptr) {
    for (const LossTerm& term : terms) losses_.clear(term);
    return compute_->mark();
  }
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "loss");
  const DeviceMeter::Piece measured(meter_.get(), *compute_, &DeviceTimes::training);
  const std::span<const Executable::Measured> all = current_->measured();
  std::vector<bool> written(all.size());
  Ref<Event> known;
  for (const LossTerm& term : terms) {
    const std::size_t i = current_->find_measured(term.output.value_or(network_.result()));
    const Losses::At at{all[i].output(), &all[i].d_output(), written[i]};
    known = losses_.run(*compute_, term, at, staged_, table_.as<float>());
    written[i] = true;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!written[i]) compute_->zero(all[i].d_output().data, all[i].d_output().spec.bytes());
  }
  staging_->release(*compute_);
  return known != nullptr ? known : compute_->mark();
}

// Measures what inference gave.
Ref<Event> GpuReplica::measure_result(const std::shared_ptr<const Loss>& loss, StepSums& sums) {
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "loss");
  const LossTerm term{loss, 1, &sums};
  Ref<Event> known = loss == nullptr ? compute_->mark() : losses_.run(*compute_, term, {read_}, staged_, table_.as<float>());
  staging_->release(*compute_);
  return known;
}

std::unique_ptr<Recording> GpuReplica::record(const std::function<void()>& pass) {
  try {
    compute_->begin_recording();
    pass();
    return compute_->end_recording();
  } catch (const Error& error) {
    machine_->warn(fmt::format("{}: steps are submitted kernel by kernel, since they cannot be recorded: {}",
                               machine_->info().name, error.what()));
    graphs_ = false;
    return nullptr;
  }
}

void GpuReplica::record_forward(Executable& network) {
  network.recorded_forward = record([&] { network.forward(*compute_); });
}

void GpuReplica::record_backward(Executable& network) {
  network.recorded_buckets.clear();
  network.recorded_backward =
      record([&] { pass_backward(network, [&](int) { network.recorded_buckets.push_back(compute_->recorded_mark()); }); });
}

// Submits the gradients, and calls `filled` for each bucket where its last work has been submitted.
void GpuReplica::pass_backward(Executable& network, const std::function<void(int bucket)>& filled) {
  int announced = 0;
  network.backward(*compute_, [&](int node) {
    while (announced < announced_ && bucket_node_[static_cast<std::size_t>(announced)] >= node) filled(announced++);
  });
  while (announced < announced_) filled(announced++);
}

// What update_ does next with the gradients comes behind the sum.
Ref<Mark> GpuReplica::add_kept(int bucket, const Ref<Mark>& filled) {
  update_->wait(filled);
  parameters_.add_kept(*update_, bucket);
  return added_ = update_->mark();
}

void GpuReplica::keep_gradients() {
  compute_->wait(added_);
  parameters_.keep_gradients(*compute_);
  adds_ = true;
}

void GpuReplica::backward(BucketReady ready) {
  const bool adds = std::exchange(adds_, false);
  compute_->wait(added_);
  const auto announce = [&](int bucket, Ref<Mark> mark) {
    std::fill(filled_.begin() + bucket, filled_.end(), mark);  // those that are left out too
    ready(bucket, adds ? add_kept(bucket, mark) : std::move(mark));
  };
  if (current_ == nullptr) {
    parameters_.zero_gradients(*compute_);
    const Ref<Mark> mark = compute_->mark();
    for (int bucket = 0; bucket < announced_; ++bucket) announce(bucket, mark);
    return;
  }
  Executable& network = *current_;
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "backward");
  const DeviceMeter::Piece measured(meter_.get(), *compute_, &DeviceTimes::training);
  if (!network.recorded_backward && graphs_ && network.passes >= kPassesBeforeRecording) record_backward(network);
  ++network.passes;
  if (!network.recorded_backward) {
    pass_backward(network, [&](int bucket) { announce(bucket, compute_->mark()); });
    return;
  }
  compute_->launch(*network.recorded_backward);
  for (int bucket = 0; bucket < announced_; ++bucket) {
    announce(bucket, network.recorded_buckets[static_cast<std::size_t>(bucket)]);
  }
}

Ref<Event> GpuReplica::update(int bucket, const UpdateStep& step, const Ref<Event>& after) {
  update_->wait(after);
  update_->wait(filled_[static_cast<std::size_t>(bucket)]);  // whatever `after` says, backward still reads the weights until then
  {
    const StepTrace::Piece piece(trace_.get(), *update_, "update", "optimizer");
    const DeviceMeter::Piece measured(meter_.get(), *update_, &DeviceTimes::update);
    parameters_.update(*update_, bucket, step);
  }
  updated_ = update_->mark();
  update_is_new_ = true;
  return updated_;
}

Ref<Event> GpuReplica::lerp_into(std::string_view copy, double decay, bool write_back) {
  // What only reads needs what forward has left; else backward must have read the weights.
  const bool writes = write_back && decay != 0;
  if (!filled_.empty()) update_->wait(writes ? filled_.back() : filled_.front());
  parameters_.lerp_into(*update_, copy, decay, write_back);
  updated_ = update_->mark();
  update_is_new_ = true;
  return updated_;
}

Ref<Event> GpuReplica::swap_with(std::string_view copy) {
  update_->wait(compute_->mark());  // passes read the values
  parameters_.swap_with(*update_, copy);
  updated_ = update_->mark();
  update_is_new_ = true;
  return updated_;
}

void GpuReplica::add_view(const Map& output, const View& view, bool first) {
  with_type(output.spec.type, [&](auto type) {
    AddLogits<decltype(type)> add;
    add.logits = output.as<decltype(type)>();
    add.total = summed_logits_.as<float>();
    add.rows = output.spec.n * output.spec.height;
    add.width = output.spec.width;
    add.row_packs = output.spec.row_packs();
    add.weight = static_cast<float>(view.weight);
    add.mirrored = view.flip_x;
    add.first = first;
    compute_->run(add);
  });
}

Ref<Event> GpuReplica::infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                             const std::shared_ptr<const Loss>& loss, StepSums& sums) {
  current_ = nullptr;  // the training pass that shares the arena is gone
  read_ = {};
  inferred_ = nullptr;
  wait_for_update();
  if (count == 0) {
    if (loss != nullptr) losses_.clear({loss, 1, &sums});
    return compute_->mark();
  }
  const View plain;
  const std::span<const View> looks = views.empty() ? std::span<const View>(&plain, 1) : views;
  check_views(network_, looks);
  const bool one = is_one_view(looks);
  Executable& network = executable({count, false});
  staged_ = staging_->load(*compute_, batch, begin, count);
  const DeviceMeter::Piece measured(meter_.get(), *compute_, &DeviceTimes::inference);
  read_ = one ? network.output() : begin_sum(network.output());
  inferred_ = &network;
  for (const View& view : looks) {
    network.begin(*compute_);
    run_ingest(network, staged_, view);
    network.forward(*compute_);
    if (!one) add_view(network.output(), view, &view == &looks.front());
  }
  return measure_result(loss, sums);
}

std::vector<LayerTime> GpuReplica::layer_times() {
  if (!layers_) return {};
  finish();
  std::vector<LayerTime> times = executables_.layer_times();
  for (const TraceSpan& span : layers_->spans()) {
    const auto layer = std::find_if(times.begin(), times.end(), [&](const LayerTime& time) { return time.layer == span.queue; });
    if (layer == times.end()) continue;
    const bool forward = span.what == Executable::kForward;
    (forward ? layer->forward : layer->backward) += span.end - span.begin;
    layer->passes += forward ? 1 : 0;
  }
  return times;
}

Ref<Event> GpuReplica::read_outputs(std::span<const OutputCopy> copies) {
  for (const OutputCopy& copy : copies) {
    if (inferred_ == nullptr) break;
    const Executable::Kept& kept = inferred_->kept(copy.value);
    const Map& map = copy.value == network_.result() ? read_ : kept.map;
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
  if (read_.data == nullptr) return {};
  const MapSpec& spec = read_.spec;
  const HostMemory host(*machine_, spec.bytes());
  compute_->copy_out(host.data(), read_.data, host.bytes());
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

std::vector<float> GpuReplica::read(std::string_view state, int parameter) {
  finish();
  return parameters_.read(*update_, state, parameter);
}

std::unique_ptr<Snapshot> GpuReplica::capture(std::span<const StateOf> states) { return parameters_.capture(*update_, states); }

void GpuReplica::write(std::string_view state, int parameter, std::span<const float> values) {
  finish();
  parameters_.write(*update_, state, parameter, values);
}

void GpuReplica::drain() {
  staging_->finish();
  compute_->mark()->wait();
  update_->mark()->wait();
}

void GpuReplica::finish() {
  drain();
  losses_.deliver();
  machine_->finish();
}

}  // namespace millrace::cuda
