#include "forward_backward.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "millrace/stage.h"
#include "submit.h"

namespace millrace {
namespace {

constexpr int kGradients = 0, kResult = 1;
constexpr std::int64_t kMaxMicroBatches = 65536;

// Shared by a step's buckets until the last of them is sent.
struct Emission {
  Ref<StepToken> token;
  std::optional<Output::Hold> hold;
  std::size_t left = 0;
};

}  // namespace

void ForwardBackward::describe(StageDescription<Params>& d) {
  d.name("forward_backward").text("Forward and backward of a training step on each replica; sends gradients once ready.");
  d.input(payload::kBatch).output(payload::kGradientBucket, "gradients").output(payload::kStepResult, "result");
  d.per_replica().stepwise();
  LossParams::describe(d.params,
                       "training loss: a name (default: cross_entropy), or a table with `type`, the loss's own keys "
                       "(pipeline-inspect loss LOSS) and `reduction`: \"mean\" over the global batch or \"sum\" of gradients");
  d.params.add_list("auxiliary", &Params::auxiliary, &AuxiliaryLoss::describe)
      .text("losses added to `loss`: training minimises loss + weight * auxiliary loss + ...");
  d.params.add("micro_batches", &Params::micro_batches)
      .range(1, kMaxMicroBatches)
      .text("sequential pieces of a replica's share: less memory, same gradient; batch normalisation sees each piece separately");
  d.params.add("sync_batch_norm", &Params::sync_batch_norm)
      .text("batch normalisation uses statistics of the whole batch, not of each replica's share");
}

void ForwardBackward::request(const Params& params, const StageSite& site, CompileRequest& request) {
  for (const StageLoss& each : make_losses(params, params.auxiliary, site)) request.losses.push_back(each);
  if (params.sync_batch_norm && params.micro_batches > 1) {
    fail(ErrorKind::usage, "sync_batch_norm: replicas synchronise once a step, but micro_batches = {} computes a step in pieces",
         params.micro_batches);
  }
  request.sync_batch_norm = request.sync_batch_norm || params.sync_batch_norm;
  request.micro_batches = std::max(request.micro_batches, static_cast<std::uint32_t>(params.micro_batches));
}

ForwardBackward::ForwardBackward(const Params& params, const StepContext& context)
    : losses_(make_losses(params, params.auxiliary, context)),
      micro_batches_(static_cast<std::uint32_t>(params.micro_batches)),
      context_(context) {}

void ForwardBackward::process(int, Packet packet, Output& output) {
  const std::uint64_t begin = now_ticks();
  Ref<StepToken> token = take_token(packet);
  Ref<Batch> batch = take_batch(packet);
  std::vector<LossTerm> terms = terms_of(packet.weights);
  const Share share = context_.share_of(*batch);
  for (const StageLoss& each : losses_) check_labels(*each.loss, *batch, share.begin, share.count, output_of(each));
  Ref<StepResult> result = make_result(*batch, share, losses_.front().loss, context_);

  const Work work{begin, share.count, batch->step, batch->epoch};
  result->ready = accumulate(batch, share, std::move(terms), *result);
  batch = nullptr;
  send_unfinished(std::move(result), kResult, output);
  backward(std::move(token), work, output);
}

Stage::DeviceWork ForwardBackward::device_work() const { return clock_.work(&replica_of(context_), &DeviceTimes::training); }

const Shape& ForwardBackward::output_of(const StageLoss& loss) const {
  return context_.network->shape_of(loss.output.value_or(context_.network->result()));
}

std::int64_t ForwardBackward::places_of(const StageLoss& loss) const {
  const Shape& output = output_of(loss);
  return output.elements() / output[0];
}

// Counting may be expensive, and equal losses over the same places have equal weights.
std::vector<double> ForwardBackward::weigh(const Batch& batch) const {
  const Share share = context_.share_of(batch);
  std::vector<double> weights;
  for (const StageLoss& each : losses_) {
    const std::int64_t places = places_of(each);
    const auto same = [&](const StageLoss& other) { return other.loss == each.loss && places_of(other) == places; };
    const auto first = static_cast<std::size_t>(std::ranges::find_if(losses_, same) - losses_.begin());
    weights.push_back(first < weights.size() ? weights[first] : each.loss->weight(batch, share, places));
  }
  return weights;
}

std::vector<LossTerm> ForwardBackward::terms_of(std::span<const double> weights) const {
  std::vector<LossTerm> terms;
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    const StageLoss& each = losses_[i];
    const double weight = i < weights.size() ? weights[i] : 0;
    terms.push_back({.loss = each.loss, .divisor = each.divisor(weight), .output = each.output});
  }
  return terms;
}

// Runs all but the last piece's backward. An empty share counts as one piece.
Ref<Event> ForwardBackward::accumulate(const Ref<Batch>& batch, const Share& share, std::vector<LossTerm> terms,
                                       StepResult& result) {
  Replica& replica = replica_of(context_);
  const std::uint32_t pieces = std::clamp(share.count, 1U, micro_batches_);
  result.sums.resize(pieces);
  for (std::size_t i = 1; i < losses_.size(); ++i) {
    result.auxiliary.push_back({losses_[i].name, std::vector<StepSums>(pieces)});
  }
  Ref<Event> measured;
  for (std::uint32_t i = 0; i < pieces; ++i) {
    const Share piece = split(share.count, pieces)[i];
    replica.ingest(batch, share.begin + piece.begin, piece.count);
    replica.forward(batch->step);
    for (std::size_t t = 0; t < terms.size(); ++t) {
      terms[t].sums = t == 0 ? &result.sums[i] : &result.auxiliary[t - 1].sums[i];
    }
    measured = replica.losses(terms);
    if (i > 0) replica.keep_gradients();
    if (i + 1 < pieces) replica.backward([](int, const Ref<Event>&) {});
  }
  return measured;
}

void ForwardBackward::backward(Ref<StepToken> token, const Work& work, Output& output) {
  Replica& replica = replica_of(context_);
  const std::vector<Bucket>& buckets = replica.buckets();
  const std::size_t filled_count = filled_buckets(buckets, work.epoch);
  auto emission = std::make_shared<Emission>();
  emission->left = filled_count;
  if (filled_count > 0) {
    emission->token = std::move(token);
    emission->hold.emplace(output);
  }
  replica.backward(
      [this, emission, work, filled_count, &buckets, &output, index = context_.replica](int number, Ref<Event> filled) {
        const Bucket& bucket = buckets[static_cast<std::size_t>(number)];
        Ref<GradientBucket> gradients = make_ref<GradientBucket>();
        const bool last = --emission->left == 0;
        if (last) {
          clock_.watch(filled, work.begin, work.samples);
          trace_.watch(filled, work.begin, work.step);
        }
        gradients->token = last ? std::exchange(emission->token, nullptr) : emission->token;
        gradients->step = work.step;
        gradients->replica = index;
        gradients->bucket = number;
        gradients->buckets = static_cast<int>(filled_count);
        gradients->data = bucket.gradients;
        gradients->elements = bucket.elements;
        gradients->ready = std::move(filled);
        Packet packet;
        packet.payload = std::move(gradients);
        packet.sequence = work.step;
        packet.replica = index;
        output.emit(kGradients, std::move(packet));
        if (last) emission->hold.reset();
      });
}

}  // namespace millrace
