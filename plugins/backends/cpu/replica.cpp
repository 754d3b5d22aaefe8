#include "replica.h"

#include <fmt/format.h>

#include <algorithm>

#include "device_info.h"
#include "map_values.h"
#include "primitives.h"

namespace millrace::cpu {

CpuReplica::CpuReplica(const Network& network, const CompileOptions& options, const DeviceOptions& device,
                       const PrimitiveChecks& checks)
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

CpuReplica::~CpuReplica() { queue_.drain(); }

std::vector<LayerTime> CpuReplica::layer_times() {
  finish();
  return options_.time_layers ? compiled_.layer_times() : std::vector<LayerTime>();
}

MemoryPlan CpuReplica::memory_plan() const {
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

void CpuReplica::start() {
  queue_.run([this] {
    parameters_.start();
    losses_.start();
    if (options_.request.sums_views) view_sum_.reserve(ViewSum::bytes(network_, options_.infer_batch));
    compiled_.start();
  });
}

void CpuReplica::take_inputs(const Batch& batch, std::uint32_t begin, std::uint32_t count) {
  inputs_.take(batch, begin, count, table_);
  rows_ = count;
  read_ = nullptr;
  view_sum_.clear();
}

void CpuReplica::run_ingest(const Batch& batch, std::uint32_t begin, std::uint32_t count, const View* view, Executable& to) {
  const WorkMeter::Piece copying(meter_, Work::copying);
  millrace::cpu::ingest(batch, begin, count, view, table_, to.input());
}

// Between backward and the step's last update, an empty queue waits for sums; otherwise it is idle.
Ref<Event> CpuReplica::submit(Work kind, std::function<void()> work, std::function<void()> always) {
  return queue_.submit(
      [this, kind, work = std::move(work)] {
        WorkMeter::Piece piece(meter_, kind);
        work();
        piece.then(updates_left_ > 0 ? Work::sums : Work::none);
      },
      std::move(always));
}

void CpuReplica::ingest(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count) {
  queue_.check();
  submitted_epoch_ = batch->epoch;
  batch->in_flight.fetch_add(1);
  const auto work = [this, batch, begin, count] {
    updates_left_ = 0;
    take_inputs(*batch, begin, count);
    pass_.first_sample = batch->first_slot + begin;
    epoch_ = batch->epoch;
    training_ = count == 0 ? nullptr : &compiled_.training(count, epoch_);
    if (training_ != nullptr) run_ingest(*batch, begin, count, nullptr, *training_);
  };
  submit(Work::training, or_give_up(work), [batch] { batch->in_flight.fetch_sub(1); });
}

void CpuReplica::forward(std::uint64_t step) {
  submit(Work::training, or_give_up([this, step] { run_forward(step); }));
}

// A replica without samples meets the others at the same points as the network for full batches.
void CpuReplica::run_forward(std::uint64_t step) {
  pass_.step = step;
  if (training_ != nullptr)
    training_->forward(pass_);
  else if (Executable* const others = compiled_.full_training(epoch_); others != nullptr)
    others->meet_forward();
  read_ = training_;
}

std::function<void()> CpuReplica::or_give_up(std::function<void()> work) const {
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

Ref<Event> CpuReplica::losses(std::span<const LossTerm> terms) {
  return submit(Work::training, or_give_up([this, all = std::vector<LossTerm>(terms.begin(), terms.end())] { run_losses(all); }));
}

// The first term at a value writes its gradient, the others add to it.
void CpuReplica::run_losses(const std::vector<LossTerm>& terms) {
  if (training_ == nullptr) {
    for (const LossTerm& term : terms) *term.sums = losses_.run({term.loss, term.output}, {}, inputs_, 0, term.divisor);
    return;
  }
  const std::span<const Executable::Measured> all = training_->measured();
  std::vector<bool> written(all.size());
  for (const LossTerm& term : terms) {
    const std::size_t i = training_->plan().find_measured(term.output.value_or(network_.result()));
    *term.sums =
        losses_.run({term.loss, term.output}, {all[i].output(), &all[i].d_output(), written[i]}, inputs_, rows_, term.divisor);
    written[i] = true;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!written[i]) zero(all[i].d_output());
  }
}

void CpuReplica::announce(Announcement& to, int node, const Error* failure) {
  const auto filled = [&] { return to.next < to.buckets && compiled_.bucket_nodes()[static_cast<std::size_t>(to.next)] >= node; };
  while (filled()) {
    if (adds_ && failure == nullptr) parameters_.gradients().add_kept(to.next);
    const Ref<HostEvent> event = make_ref<HostEvent>();
    event->signal(failure);
    to.ready(to.next++, event);
  }
}

void CpuReplica::run_backward(Announcement& to) {
  if (training_ == nullptr) {
    if (Executable* const others = compiled_.full_training(epoch_); others != nullptr) others->meet_backward();
    parameters_.gradients().zero();
    return;
  }
  training_->backward(pass_, [&](int node) { announce(to, node); });
}

// The count of buckets is known here even if the work fails, since those that wait for them count them too.
void CpuReplica::backward(BucketReady ready) {
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

void CpuReplica::keep_gradients() {
  submit(Work::training, [this] {
    parameters_.gradients().keep();
    adds_ = true;
  });
}

Ref<Event> CpuReplica::update(int bucket, const UpdateStep& step, const Ref<Event>& after) {
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

Ref<Event> CpuReplica::lerp_into(std::string_view copy, double decay, bool write_back) {
  return submit(Work::update,
                [this, name = std::string(copy), decay, write_back] { parameters_.lerp_into(name, decay, write_back); });
}

Ref<Event> CpuReplica::swap_with(std::string_view copy) {
  return submit(Work::update, [this, name = std::string(copy)] { parameters_.swap_with(name); });
}

Map CpuReplica::run_infer(const Batch& batch, std::uint32_t begin, std::uint32_t count, const std::vector<View>& views) {
  Executable& network = compiled_.inference(count);
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

Ref<Event> CpuReplica::infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                             const std::shared_ptr<const Loss>& loss, StepSums& sums) {
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

Ref<Event> CpuReplica::read_outputs(std::span<const OutputCopy> copies) {
  return submit(Work::inference, [this, wanted = std::vector<OutputCopy>(copies.begin(), copies.end())] {
    if (read_ == nullptr) return;
    for (const OutputCopy& copy : wanted) {
      const bool summed = copy.value == network_.result() && view_sum_.exists();
      read_map(summed ? view_sum_.get() : read_->output(copy.value), copy.host);
    }
  });
}

void CpuReplica::run_gradient(const Batch& batch, std::uint32_t begin, std::uint32_t count, const GradientCopy& copy) {
  Executable& network = compiled_.gradient(copy.gradient.by, count);
  const View plain;
  run_ingest(batch, begin, count, &plain, network);
  network.forward(pass_);
  read_gradient(network, pass_, std::span(batch.labels + begin, count), copy);
}

Ref<Event> CpuReplica::read_gradients(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count,
                                      std::span<const GradientCopy> copies) {
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

std::vector<float> CpuReplica::logits() {
  std::vector<float> values;
  queue_.run([&] {
    if (read_ != nullptr) values = values_of(view_sum_.exists() ? view_sum_.get() : read_->output());
  });
  return values;
}

std::vector<float> CpuReplica::read(std::string_view state, int parameter) {
  std::vector<float> values;
  queue_.run([&] { values = parameters_.read(state, parameter, compiled_.engine()); });
  return values;
}

void CpuReplica::write(std::string_view state, int parameter, std::span<const float> values) {
  queue_.run([&] { parameters_.write(state, parameter, values, compiled_.engine()); });
}

void CpuReplica::finish() {
  queue_.drain();
  queue_.check();
}

}  // namespace millrace::cpu
