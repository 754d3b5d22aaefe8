#include "replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr std::size_t kMostPartialCounts = 8;  // executables kept for counts below the full one
constexpr int kPassesBeforeRecording = 1;      // libraries load their kernels in the first pass, which must not be recorded

void check_rule(const LossSpec& spec) {
  if (spec.rule != "cross_entropy") {
    fail(ErrorKind::usage, "backend 'cuda' has no loss '{}'; it has 'cross_entropy'", spec.rule);
  }
}

}  // namespace

std::unique_ptr<Replica> make_replica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options) {
  return std::make_unique<GpuReplica>(std::move(machine), network, options);
}

GpuReplica::GpuReplica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options)
    : machine_(std::move(machine)),
      network_(network),
      options_(options),
      parameters_(network_, options_),
      workshop_{network_, options_, parameters_, *machine_, choose_shortcuts()},
      nodes_(fuse(network_, {.backend = "cuda"})),
      most_samples_(std::max(options.train_batch, options.infer_batch)),
      graphs_(options.graphs),
      returned_(*machine_) {
  const auto add = [&](Executables& kept, std::uint32_t samples, bool training) {
    if (samples == 0) return;
    kept[samples] = std::make_unique<Executable>(workshop_, nodes_, samples, training);
    arena_bytes_ = std::max(arena_bytes_, kept[samples]->arena_bytes());
  };
  add(training_, options_.train_batch, true);
  add(inference_, options_.infer_batch, false);
  parameters_.finish_planning();
  bucket_node_ = first_nodes(network_, nodes_, parameters_.buckets());
  check_fit(options_.resident_sets, memory_plan(), machine_->info());
}

GpuReplica::~GpuReplica() {
  try {
    if (!staging_) return;
    drain();
    returned_.deliver();
    if (trace_) trace_->finish(engines());
  } catch (const Error&) {  // whoever wanted to know asked finish()
  }
}

void GpuReplica::rebind(std::size_t arena_bytes) {
  if (arena_bytes > arena_.bytes()) {
    arena_ = DeviceMemory();
    arena_ = DeviceMemory(*machine_, arena_bytes, "activations, their gradients and workspaces");
  }
  for (const Executables* kept : {&training_, &inference_}) {
    for (const auto& [count, executable] : *kept) {
      executable->bind(arena_.data());
      executable->recorded_forward = nullptr;
      executable->recorded_backward = nullptr;
    }
  }
}

Executable& GpuReplica::executable(Executables& kept, std::uint32_t count, bool training) {
  const std::uint32_t most = training ? options_.train_batch : options_.infer_batch;
  if (count > most) {
    fail(ErrorKind::usage, "a batch of {} samples for {}: the network was compiled for at most {}", count,
         training ? "training" : "inference", most);
  }
  const auto found = kept.find(count);
  if (found != kept.end()) return *found->second;
  if (kept.size() > kMostPartialCounts) {
    drain();
    std::erase_if(kept, [&](const auto& entry) { return entry.first != most; });
  }
  Executable& made = *(kept[count] = std::make_unique<Executable>(workshop_, nodes_, count, training));
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
  first_sample_ = begin;
  if (count == 0) return;
  Executable& network = executable(training_, count, true);
  staged_ = staging_->load(*compute_, batch, begin, count);
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "ingest");
  network.begin(*compute_);
  run_ingest(network, staged_, View{});
  current_ = &network;
}

void GpuReplica::forward(std::uint64_t step) {
  logits_are_summed_ = false;
  wait_for_update();
  if (current_ == nullptr) return;
  SetScalars scalars;
  scalars.values = {step, first_sample_};
  scalars.out = scalars_.as<StepScalars>();
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "forward");
  compute_->run(scalars);
  Executable& network = *current_;
  if (!network.recorded_forward && graphs_ && network.passes >= kPassesBeforeRecording) record_forward(network);
  if (network.recorded_forward)
    compute_->launch(*network.recorded_forward);
  else
    network.forward(*compute_);
  network.begin_loss(*compute_);
}

Ref<Event> GpuReplica::run_loss(const LossSpec& spec, double normaliser, const float* logits, float* gradient, StepSums& sums) {
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "loss");
  CrossEntropy rows;
  rows.logits = logits;
  rows.labels = staged_.labels;
  rows.second_labels = staged_.second_labels;
  rows.weights = staged_.weights;
  rows.shares = staged_.shares;
  rows.gradient = gradient;
  rows.results = row_losses_.as<RowLoss>();
  rows.rows = staged_.count;
  rows.classes = network_.output().elements();
  rows.label_smoothing = spec.label_smoothing;
  rows.normaliser = normaliser;
  compute_->run(rows);
  SumLosses total;
  total.results = rows.results;
  total.rows = rows.rows;
  total.out = sums_.as<StepSums>();
  compute_->run(total);
  staging_->release(*compute_);
  return returned_.submit(*compute_, total.out, sums);
}

Ref<Event> GpuReplica::loss(const LossSpec& spec, double normaliser, StepSums& sums) {
  check_rule(spec);
  if (current_ == nullptr) {
    sums = {};
    return compute_->mark();
  }
  return run_loss(spec, normaliser, current_->logits(), current_->d_logits(), sums);
}

std::unique_ptr<Recording> GpuReplica::record(const std::function<void()>& pass) {
  try {
    compute_->begin_recording();
    pass();
    return compute_->end_recording();
  } catch (const Error& error) {
    fmt::print(stderr, "warning: {}: steps are submitted kernel by kernel, since they cannot be recorded: {}\n",
               machine_->info().name, error.what());
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
    while (announced < static_cast<int>(bucket_node_.size()) && bucket_node_[static_cast<std::size_t>(announced)] >= node) {
      filled(announced++);
    }
  });
  while (announced < static_cast<int>(bucket_node_.size())) filled(announced++);
}

void GpuReplica::backward(BucketReady ready) {
  const auto announce = [&](int bucket, Ref<Mark> mark) {
    filled_[static_cast<std::size_t>(bucket)] = mark;
    ready(bucket, std::move(mark));
  };
  if (current_ == nullptr) {
    parameters_.zero_gradients(*compute_);
    const Ref<Mark> mark = compute_->mark();
    for (int bucket = 0; bucket < static_cast<int>(filled_.size()); ++bucket) announce(bucket, mark);
    return;
  }
  Executable& network = *current_;
  const StepTrace::Piece piece(trace_.get(), *compute_, "compute", "backward");
  if (!network.recorded_backward && graphs_ && network.passes >= kPassesBeforeRecording) record_backward(network);
  ++network.passes;
  if (!network.recorded_backward) {
    pass_backward(network, [&](int bucket) { announce(bucket, compute_->mark()); });
    return;
  }
  compute_->launch(*network.recorded_backward);
  for (int bucket = 0; bucket < static_cast<int>(filled_.size()); ++bucket) {
    announce(bucket, network.recorded_buckets[static_cast<std::size_t>(bucket)]);
  }
}

Ref<Event> GpuReplica::update(int bucket, const UpdateStep& step, const Ref<Event>& after) {
  update_->wait(after);
  update_->wait(filled_[static_cast<std::size_t>(bucket)]);  // whatever `after` says, backward still reads the weights until then
  {
    const StepTrace::Piece piece(trace_.get(), *update_, "update", "optimizer");
    parameters_.update(*update_, bucket, step);
  }
  updated_ = update_->mark();
  update_is_new_ = true;
  return updated_;
}

Ref<Event> GpuReplica::blend(std::string_view copy, double decay, bool write_back) {
  // What only reads needs what forward has left; else backward must have read the weights.
  const bool writes = write_back && decay != 0;
  if (!filled_.empty()) update_->wait(writes ? filled_.back() : filled_.front());
  parameters_.blend(*update_, copy, decay, write_back);
  updated_ = update_->mark();
  update_is_new_ = true;
  return updated_;
}

Ref<Event> GpuReplica::infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                             const LossSpec& spec, StepSums& sums) {
  check_rule(spec);
  current_ = nullptr;  // the training pass that shares the arena is gone
  logits_are_summed_ = true;
  summed_rows_ = count;
  wait_for_update();
  if (count == 0) {
    sums = {};
    return compute_->mark();
  }
  Executable& network = executable(inference_, count, false);
  staged_ = staging_->load(*compute_, batch, begin, count);
  const View plain;
  AddLogits add;
  add.total = summed_logits_.as<float>();
  add.elements = static_cast<std::int64_t>(count) * pitch_of(network.classes());
  add.first = true;
  for (const View& view : views.empty() ? std::span<const View>(&plain, 1) : views) {
    network.begin(*compute_);
    run_ingest(network, staged_, view);
    network.forward(*compute_);
    add.logits = network.logits();
    add.weight = static_cast<float>(view.weight);
    compute_->run(add);
    add.first = false;
  }
  return run_loss(spec, 1, add.total, nullptr, sums);
}

std::vector<float> GpuReplica::logits() {
  if (!logits_are_summed_ && current_ == nullptr) return {};
  const std::int64_t rows = logits_are_summed_ ? summed_rows_ : staged_.count;
  const auto classes = static_cast<std::size_t>(network_.output().elements());
  const auto pitch = static_cast<std::size_t>(pitch_of(static_cast<std::int64_t>(classes)));
  std::vector<float> values(static_cast<std::size_t>(rows) * classes);
  if (rows == 0) return values;
  const HostMemory host(*machine_, static_cast<std::size_t>(rows) * pitch * sizeof(float));
  compute_->copy_out(host.data(), logits_are_summed_ ? summed_logits_.as<float>() : current_->logits(), host.bytes());
  compute_->mark()->wait();
  machine_->host_access(host.data(), host.bytes(), false);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    std::copy_n(reinterpret_cast<const float*>(host.data()) + row * pitch, classes,
                values.begin() + static_cast<std::ptrdiff_t>(row * classes));
  }
  return values;
}

std::vector<float> GpuReplica::read(std::string_view state, int parameter) {
  finish();
  return parameters_.read(*update_, state, parameter);
}

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
  returned_.deliver();
  machine_->finish();
}

}  // namespace millrace::cuda
