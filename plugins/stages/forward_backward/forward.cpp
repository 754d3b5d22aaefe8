#include "forward.h"

#include <fmt/format.h>

#include <cassert>
#include <utility>

#include "millrace/backend/backend.h"
#include "millrace/stage.h"
#include "millrace/util/batch_input.h"
#include "submit.h"

namespace millrace {
namespace {

constexpr std::size_t kResultPort = 0, kPredictionsPort = 1;

}  // namespace

std::vector<View> test_time_views(const std::string& test_time) {
  std::vector<View> views;
  const auto add = [&views](int shift, double weight) {
    for (const bool flip : {false, true}) views.push_back({.dx = shift, .dy = shift, .flip_x = flip, .weight = weight / 2});
  };
  if (test_time == "none") {
    views.emplace_back();
  } else if (test_time == "flip") {
    add(0, 1);
  } else {
    add(0, 0.5);
    add(-1, 0.25);
    add(1, 0.25);
  }
  return views;
}

void Forward::describe(StageDescription<Params>& d) {
  d.name("forward").text("Inference on each replica, for validation and predictions.").in_recipes(RecipeRole::inference);
  d.input(payload::kBatch).output(payload::kStepResult, "result").output(payload::kPredictions, "predictions");
  d.per_replica().stepwise();
  LossParams::describe(d.params,
                       "reported loss: a name, or a table with `type` and the loss's own keys (default: the training graph's; "
                       "for cross_entropy without its keys)");
  d.params.add("test_time", &Params::test_time)
      .choices({"none", "flip", "flip_translate"})
      .text(
          "averaged views: the image, its mirror image, both shifted by one pixel. Maps of mirror images are mirrored back; "
          "shifted images yield no maps")
      .in_recipes();
}

void Forward::request(const Params& params, const StageSite& site, CompileRequest& request) {
  if (site.sends(kResultPort)) request.losses.push_back(make_loss(params, site).loss);
  if (site.sends(kPredictionsPort)) request.read(site.network->result());
  if (!is_one_view(test_time_views(params.test_time))) request.sums_views = true;
}

Forward::Forward(const Params& params, const StepContext& context)
    : context_(context),
      loss_(context.sends(kResultPort) ? make_loss(params, context).loss : nullptr),
      views_(test_time_views(params.test_time)) {
  try {
    check_views(*context.network, views_);
  } catch (Error& error) {
    throw error.in(fmt::format("test_time = \"{}\"", params.test_time));
  }
  if (!context.sends(kPredictionsPort)) return;
  const Network& network = *context.network;
  const auto add = [&](LayerPort port) { values_.push_back({port, network.shape_of(port), nullptr}); };
  add(network.result());
  if (context.request == nullptr) return;
  for (const LayerPort port : context.request->outputs) {
    if (port == network.result()) continue;
    if (!is_one_view(views_)) {
      fail(ErrorKind::usage,
           "test_time = \"{}\": a stage of [{}] takes the output of layer '{}', and each view of an image has its own: set "
           "test_time = \"none\"",
           params.test_time, context.graph, network.layers[static_cast<std::size_t>(port.layer)].name);
    }
    add(port);
  }
  for (const auto& [by, of] : context.request->gradients) values_.push_back({by, network.shape_of(by), nullptr, of});
}

std::uint32_t Forward::largest_share() const {
  const auto replica = static_cast<std::size_t>(context_.first_replica + context_.replica);
  return split(context_.batch_size, context_.all_replicas(), context_.load)[replica].count;
}

std::size_t Forward::memory_bound() const { return values_.empty() ? 0 : PredictionPool::bytes(values_, largest_share()); }

void Forward::open() {
  if (values_.empty()) return;
  Device& device = *context_.devices[static_cast<std::size_t>(context_.replica)];
  pool_ = std::make_shared<PredictionPool>(device, values_, largest_share());
}

void Forward::process(int, Packet packet, Output& output) {
  const std::uint64_t begin = now_ticks();
  Ref<StepToken> token = take_token(packet);
  Ref<Batch> batch = take_batch(packet);
  const Share share = context_.share_of(*batch);
  Replica& replica = replica_of(context_);
  Ref<Predictions> predictions = pool_ ? begin_predictions(batch, share) : nullptr;
  const std::uint64_t step = batch->step;
  Ref<StepResult> result;
  Ref<Event> done;
  if (loss_ != nullptr) {
    check_labels(*loss_, *batch, share.begin, share.count, context_.network->output());
    result = make_result(*batch, share, loss_, context_);
    result->sums.resize(1);
  }
  StepSums& sums = result ? result->sums[0] : no_sums_;
  done = replica.infer(batch, share.begin, share.count, views_, loss_, sums);
  if (result) result->ready = done;
  if (predictions) done = predictions->ready = PredictionPool::read(replica, *predictions, batch, share.begin);
  batch = nullptr;  // the replica holds it while reading
  clock_.watch(done, begin, share.count);
  trace_.watch(done, begin, step);
  if (result) send_unfinished(std::move(result), static_cast<int>(kResultPort), output);
  if (predictions) send_unfinished(std::move(predictions), static_cast<int>(kPredictionsPort), output);
  // Nothing waits for an update here: the next batch may follow at once, or as soon as predictions are free for it.
  if (pool_) pool_->let_go(std::move(token));
}

Stage::DeviceWork Forward::device_work() const { return clock_.work(&replica_of(context_), &DeviceTimes::inference); }

// Fills in the values known before computing.
Ref<Predictions> Forward::begin_predictions(const Ref<Batch>& of, const Share& share) {
  const Batch& batch = *of;
  Ref<Predictions> predictions = pool_->take(share.count);
  predictions->epoch = batch.epoch;
  predictions->step = batch.step;
  predictions->replica = context_.replica;
  predictions->replicas = static_cast<int>(context_.replicas.size());
  predictions->turn = turn_++;
  const auto steps = static_cast<std::uint64_t>(context_.steps_per_epoch);
  const bool is_dry_run = context_.run != nullptr && context_.run->is_dry_run();  // the sinks have nothing to write yet
  predictions->last =
      !is_dry_run && steps > 0 && (batch.step + 1) % steps == 0 && predictions->replica + 1 == predictions->replicas;
  predictions->first_slot = share.begin;
  if (context_.request != nullptr && context_.request->needs_image) predictions->batch = of;
  for (std::uint32_t i = 0; i < share.count; ++i) {
    const std::uint32_t slot = share.begin + i;
    const Sample& from = batch.samples[slot];
    Predictions::Sample& to = predictions->samples[i];
    to.key = from.key;
    to.url.assign(from.url);
    to.member.assign(from.member);
    to.label = from.label;
    to.counts = !is_dry_run && batch.weights[slot] != 0;
    to.fault.clear();
    if (from.fault && !is_dry_run) to.fault.append(from.fault->stage).append(": ").append(from.fault->cause);
    to.source = seen_source(batch, slot);
  }
  return predictions;
}

namespace {

constexpr std::size_t kTextBytes = 256;  // approximate size of a sample's strings

std::size_t elements(const Predictions::Values& values) { return static_cast<std::size_t>(values.shape.elements()); }

std::size_t floats_of_a_sample(const std::vector<Predictions::Values>& values) {
  std::size_t sum = 0;
  for (const Predictions::Values& value : values) sum += elements(value);
  return sum;
}

}  // namespace

class PredictionPool::Pooled final : public Predictions {
 public:
  void make_room(Device& device, std::size_t room) {
    if (room <= samples.size()) return;
    samples.resize(room);
    memory_ = device.host_buffer(room * floats_of_a_sample(outputs) * sizeof(float));
    auto* next = reinterpret_cast<const float*>(memory_.get());
    for (Values& values : outputs) {
      values.values = next;
      next += room * elements(values);
    }
  }

  std::shared_ptr<PredictionPool> home;  // set while in use

 private:
  void recycle() noexcept override {
    ready = nullptr;
    batch = nullptr;
    const std::shared_ptr<PredictionPool> pool = std::move(home);
    pool->come_home(this);
  }

  std::shared_ptr<std::uint8_t[]> memory_;
};

PredictionPool::PredictionPool(Device& device, std::vector<Predictions::Values> values, std::uint32_t samples) : device_(device) {
  for (std::size_t i = 0; i < kCirculating; ++i) {
    auto made = std::make_unique<Pooled>();
    made->outputs = values;
    made->make_room(device, samples);
    at_home_.push_back(std::move(made));
  }
}

PredictionPool::~PredictionPool() = default;

Ref<Predictions> PredictionPool::take(std::uint32_t samples) {
  Pooled* taken = nullptr;
  {
    const std::lock_guard lock(mutex_);
    assert(!at_home_.empty());
    taken = at_home_.back().release();
    at_home_.pop_back();
  }
  taken->home = shared_from_this();
  const Ref<Predictions> predictions(taken);
  taken->make_room(device_, samples);
  taken->count = samples;
  return predictions;
}

// A discarded token is released with the argument, after the lock.
void PredictionPool::let_go(Ref<Payload> token) {
  const std::lock_guard lock(mutex_);
  if (at_home_.empty()) token_ = std::move(token);
}

void PredictionPool::come_home(Pooled* predictions) noexcept {
  Ref<Payload> token;  // released after the lock: the next step may begin with it
  const std::lock_guard lock(mutex_);
  at_home_.emplace_back(predictions);
  token = std::move(token_);
}

Ref<Event> PredictionPool::read(Replica& replica, const Predictions& predictions, const Ref<Batch>& batch, std::uint32_t begin) {
  std::vector<OutputCopy> copies;
  std::vector<GradientCopy> gradients;
  for (const Predictions::Values& values : predictions.outputs) {
    auto* const host = const_cast<float*>(values.values);  // the pool's own memory
    if (values.score)
      gradients.push_back({{values.port, *values.score}, host});
    else
      copies.push_back({values.port, host});
  }
  const Ref<Event> read = replica.read_outputs(copies);
  return gradients.empty() ? read : replica.read_gradients(batch, begin, predictions.count, gradients);
}

std::size_t PredictionPool::bytes(const std::vector<Predictions::Values>& values, std::uint32_t samples) {
  return kCirculating * samples * (floats_of_a_sample(values) * sizeof(float) + sizeof(Predictions::Sample) + kTextBytes);
}

}  // namespace millrace
