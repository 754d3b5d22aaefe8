#include "replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "device_info.h"
#include "kernels/loss.h"

namespace millrace::cpu {
namespace {

constexpr std::size_t kMostPartialCounts = 8;  // executables kept for counts below the full one

void check_rule(const LossSpec& spec) {
  if (spec.rule != "cross_entropy") {
    fail(ErrorKind::usage, "backend 'cpu' has no loss '{}'; it has 'cross_entropy'", spec.rule);
  }
}

}  // namespace

CpuReplica::CpuReplica(const Network& network, const CompileOptions& options, const std::vector<int>& cores)
    : network_(network), options_(options), table_(network_), parameters_(network_, options_) {
  queue_.run([&] { compile(cores); });
}

CpuReplica::~CpuReplica() {
  queue_.drain();
  for (const Executables* kept : {&training_, &inference_}) {
    for (const auto& [count, executable] : *kept) std::fputs(executable->profile().c_str(), stderr);
  }
}

void CpuReplica::compile(const std::vector<int>& cores) {
  make_team(cores);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  nodes_ = fuse(network_, {.backend = "cpu", .pool_with_statistics = true});
  workshop_ = std::make_unique<Workshop>(
      Workshop{network_, options_, preferred_layout(network_, options_, engine), parameters_, engine, dnnl::stream(engine)});
  const auto add = [&](Executables& kept, std::uint32_t samples, bool training) {
    if (samples == 0) return;
    kept[samples] = std::make_unique<Executable>(*workshop_, nodes_, samples, training);
    arena_bytes_ = std::max(arena_bytes_, kept[samples]->arena_bytes());
  };
  add(training_, options_.train_batch, true);
  add(inference_, options_.infer_batch, false);
  parameters_.finish_planning();
  bucket_node_ = first_nodes(network_, nodes_, parameters_.buckets());
}

MemoryPlan CpuReplica::memory_plan() const {
  MemoryPlan plan;
  parameters_.append_to(plan);
  plan.items.push_back({"activations and their gradients", arena_bytes_});
  const std::size_t most = std::max(options_.train_batch, options_.infer_batch);
  const auto classes = static_cast<std::size_t>(network_.output().elements());
  plan.items.push_back({"labels and logits", most * (classes + 2) * sizeof(float)});
  return plan;
}

void CpuReplica::start() {
  queue_.run([this] {
    parameters_.start();
    arena_ = MemoryRegion(arena_bytes_);
    for (const Executables* kept : {&training_, &inference_}) {
      for (const auto& [count, executable] : *kept) executable->bind(arena_.as<std::byte>());
    }
  });
}

Executable& CpuReplica::executable(Executables& kept, std::uint32_t most, std::uint32_t count, bool training) {
  if (count > most) {
    fail(ErrorKind::usage, "a batch of {} samples for {}: the network was compiled for at most {}", count,
         training ? "training" : "inference", most);
  }
  const auto found = kept.find(count);
  if (found != kept.end()) return *found->second;
  if (kept.size() > kMostPartialCounts) {
    std::erase_if(kept, [&](const auto& entry) { return entry.first != most; });
  }
  auto made = std::make_unique<Executable>(*workshop_, nodes_, count, training);
  if (made->arena_bytes() > arena_.bytes()) {  // oneDNN may want more scratch memory for fewer samples, but hardly ever does
    arena_ = MemoryRegion(made->arena_bytes());
    for (const Executables* all : {&training_, &inference_}) {
      for (const auto& [samples, other] : *all) other->bind(arena_.as<std::byte>());
    }
  }
  made->bind(arena_.as<std::byte>());
  return *(kept[count] = std::move(made));
}

void CpuReplica::take_labels(const Batch& batch, std::uint32_t begin, std::uint32_t count) {
  labels_.assign(batch.labels + begin, batch.labels + begin + count);
  weights_.assign(batch.weights + begin, batch.weights + begin + count);
  second_labels_.clear();
  shares_.clear();
  if (batch.shares != nullptr) {
    second_labels_.assign(batch.second_labels + begin, batch.second_labels + begin + count);
    shares_.assign(batch.shares + begin, batch.shares + begin + count);
  }
  rows_ = count;
}

void CpuReplica::ingest(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count) {
  queue_.check();
  batch->in_flight.fetch_add(1);
  const auto work = [this, batch, begin, count] {
    take_labels(*batch, begin, count);
    pass_.first_sample = begin;
    current_ = count == 0 ? nullptr : &executable(training_, options_.train_batch, count, true);
    if (current_ != nullptr) millrace::cpu::ingest(*batch, begin, count, nullptr, table_, current_->input());
  };
  queue_.submit(work, [batch] { batch->in_flight.fetch_sub(1); });
}

void CpuReplica::forward(std::uint64_t step) {
  queue_.submit([this, step] {
    pass_.step = step;
    logits_are_summed_ = false;
    if (current_ != nullptr) current_->forward(pass_);
  });
}

StepSums CpuReplica::measure(const LossSpec& spec, const float* logits, double normaliser, float* gradient) const {
  CrossEntropy arguments;
  arguments.logits = logits;
  arguments.labels = labels_.data();
  arguments.weights = weights_.data();
  arguments.rows = rows_;
  arguments.classes = network_.output().elements();
  arguments.label_smoothing = spec.label_smoothing;
  arguments.normaliser = normaliser;
  arguments.gradient = gradient;
  if (!shares_.empty()) {
    arguments.second_labels = second_labels_.data();
    arguments.shares = shares_.data();
  }
  return cross_entropy(arguments);
}

Ref<Event> CpuReplica::loss(const LossSpec& spec, double normaliser, StepSums& sums) {
  check_rule(spec);
  return queue_.submit([this, spec, normaliser, &sums] {
    sums = current_ == nullptr ? StepSums{} : measure(spec, current_->logits(), normaliser, current_->d_logits());
  });
}

void CpuReplica::announce(const BucketReady& ready, int& announced, int node) {
  const auto filled = [&] {
    return announced < static_cast<int>(bucket_node_.size()) && bucket_node_[static_cast<std::size_t>(announced)] >= node;
  };
  while (filled()) {
    const Ref<HostEvent> event = make_ref<HostEvent>();
    event->signal();
    ready(announced++, event);
  }
}

void CpuReplica::run_backward(const BucketReady& ready, int& announced) {
  if (current_ == nullptr) {
    parameters_.zero_gradients();
    return;
  }
  current_->backward(pass_, [&](int node) { announce(ready, announced, node); });
}

void CpuReplica::backward(BucketReady ready) {
  struct State {
    BucketReady ready;
    int announced = 0;
  };
  const auto state = std::make_shared<State>(State{std::move(ready)});
  queue_.submit([this, state] { run_backward(state->ready, state->announced); },
                [this, state] { announce(state->ready, state->announced, -1); });  // whatever happened, all are announced
}

Ref<Event> CpuReplica::update(int bucket, const UpdateStep& step, const Ref<Event>& after) {
  const std::vector<double> factors(step.rate_factor.begin(), step.rate_factor.end());
  return queue_.submit([this, bucket, copied = step, factors, after]() mutable {
    if (after) after->wait();
    copied.rate_factor = factors;
    parameters_.update(bucket, copied);
  });
}

Ref<Event> CpuReplica::blend(std::string_view copy, double decay, bool write_back) {
  return queue_.submit([this, name = std::string(copy), decay, write_back] { parameters_.blend(name, decay, write_back); });
}

void CpuReplica::run_infer(const Batch& batch, std::uint32_t begin, std::uint32_t count, const std::vector<View>& views) {
  Executable& network = executable(inference_, options_.infer_batch, count, false);
  const auto elements = static_cast<std::size_t>(count * network.classes());
  summed_logits_.assign(elements, 0.0F);
  for (const View& view : views) {
    millrace::cpu::ingest(batch, begin, count, &view, table_, network.input());
    network.forward(pass_);
    const float* logits = network.logits();
    const auto weight = static_cast<float>(view.weight);
    for (std::size_t i = 0; i < elements; ++i) summed_logits_[i] += weight * logits[i];
  }
}

Ref<Event> CpuReplica::infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                             const LossSpec& spec, StepSums& sums) {
  queue_.check();
  check_rule(spec);
  batch->in_flight.fetch_add(1);
  std::vector<View> looks(views.begin(), views.end());
  if (looks.empty()) looks.push_back({});
  const auto work = [this, batch, begin, count, looks, spec, &sums] {
    sums = {};
    current_ = nullptr;  // the training pass that shares the arena is gone
    logits_are_summed_ = true;
    summed_logits_.clear();
    take_labels(*batch, begin, count);
    if (count == 0) return;
    run_infer(*batch, begin, count, looks);
    sums = measure(spec, summed_logits_.data(), 1, nullptr);
  };
  return queue_.submit(work, [batch] { batch->in_flight.fetch_sub(1); });
}

std::vector<float> CpuReplica::logits() {
  std::vector<float> values;
  queue_.run([&] {
    if (logits_are_summed_)
      values = summed_logits_;
    else if (current_ != nullptr)
      values.assign(current_->logits(), current_->logits() + rows_ * current_->classes());
  });
  return values;
}

std::vector<float> CpuReplica::read(std::string_view state, int parameter) {
  std::vector<float> values;
  queue_.run([&] { values = parameters_.read(state, parameter, workshop_->engine); });
  return values;
}

void CpuReplica::write(std::string_view state, int parameter, std::span<const float> values) {
  queue_.run([&] { parameters_.write(state, parameter, values, workshop_->engine); });
}

void CpuReplica::finish() {
  queue_.drain();
  queue_.check();
}

}  // namespace millrace::cpu
