#include "forward_backward.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "millrace/split.h"
#include "submit.h"

namespace millrace {
namespace {

constexpr int kGradients = 0, kResult = 1;
constexpr std::int64_t kMostMicroBatches = 65536;

// What a step's buckets share until the last of them is on its way.
struct Emission {
  Ref<StepToken> token;
  std::optional<Output::Hold> hold;
  std::size_t left = 0;
};

}  // namespace

void ForwardBackward::describe(StageDescription<Params>& d) {
  d.name("forward_backward")
      .text("Forward and backward of one training step on each replica; sends gradients as they are ready.");
  d.input(payload::kBatch).output(payload::kGradientBucket, "gradients").output(payload::kStepResult, "result");
  d.per_replica().stepwise();
  LossParams::describe(
      d.params,
      "what is minimised: the name of a loss (default: cross_entropy), or a table with `rule`, the loss's own keys "
      "(pipeline-inspect loss RULE) and `reduction`: whether gradients are those of the \"mean\" over the global batch or of the "
      "\"sum\"");
  d.params.add("micro_batches", &Params::micro_batches)
      .range(1, kMostMicroBatches)
      .text(
          "pieces in which a replica computes its share, one after the other: less memory, and the gradient of the whole; batch "
          "normalisation sees each piece by itself");
  d.params.add("sync_batch_norm", &Params::sync_batch_norm)
      .text("batch normalisation takes the mean and variance of the whole batch, not of each replica's share of it");
}

void ForwardBackward::request(const Params& params, const StageContext& context, CompileRequest& request) {
  request.losses.push_back(make_loss(params, context).loss);
  if (params.sync_batch_norm && params.micro_batches > 1) {
    fail(ErrorKind::usage, "sync_batch_norm: replicas meet once a step, and micro_batches = {} computes a step in pieces",
         params.micro_batches);
  }
  request.sync_batch_norm = request.sync_batch_norm || params.sync_batch_norm;
  request.micro_batches = std::max(request.micro_batches, static_cast<std::uint32_t>(params.micro_batches));
}

ForwardBackward::ForwardBackward(const Params& params, const StageContext& context)
    : loss_(make_loss(params, context)), micro_batches_(static_cast<std::uint32_t>(params.micro_batches)), context_(context) {}

void ForwardBackward::process(int, Packet packet, Output& output) {
  const std::uint64_t begin = now_ticks();
  Ref<StepToken> token = take_token(packet);
  Ref<Batch> batch = take_batch(packet);
  const double weight = loss_.add_up ? 1 : packet.weight;
  const Share share = context_.share_of(*batch);
  check_labels(*loss_.loss, *batch, share.begin, share.count, context_.network->output());
  const std::uint64_t step = batch->step;
  Ref<StepResult> result = make_result(*batch, share, loss_.loss, context_);

  result->ready = accumulate(batch, share, weight > 0 ? weight : 1, result->sums);
  batch = nullptr;
  send_unfinished(std::move(result), kResult, output);
  backward(std::move(token), step, {begin, share.count}, output);
}

double ForwardBackward::weigh(const Batch& batch) const {
  const Shape& output = context_.network->output();
  return loss_.loss->weight(batch, context_.share_of(batch), output.elements() / output[0]);
}

// All but the last piece's backward. An empty share is a piece too.
Ref<Event> ForwardBackward::accumulate(const Ref<Batch>& batch, const Share& share, double divisor, std::vector<StepSums>& sums) {
  Replica& replica = replica_of(context_);
  const std::uint32_t pieces = std::clamp(share.count, 1U, micro_batches_);
  sums.resize(pieces);
  Ref<Event> measured;
  for (std::uint32_t i = 0; i < pieces; ++i) {
    const Share piece = split(share.count, pieces)[i];
    replica.ingest(batch, share.begin + piece.begin, piece.count);
    replica.forward(batch->step);
    measured = replica.loss(loss_.loss, divisor, sums[i]);
    if (i > 0) replica.keep_gradients();
    if (i + 1 < pieces) replica.backward([](int, const Ref<Event>&) {});
  }
  return measured;
}

void ForwardBackward::backward(Ref<StepToken> token, std::uint64_t step, Work work, Output& output) {
  Replica& replica = replica_of(context_);
  const std::vector<Bucket>& buckets = replica.buckets();
  auto emission = std::make_shared<Emission>();
  emission->left = buckets.size();
  if (!buckets.empty()) {
    emission->token = std::move(token);
    emission->hold.emplace(output);
  }
  replica.backward([this, emission, step, work, &buckets, &output, index = context_.replica](int number, Ref<Event> filled) {
    const Bucket& bucket = buckets[static_cast<std::size_t>(number)];
    Ref<GradientBucket> gradients = make_ref<GradientBucket>();
    const bool last = --emission->left == 0;
    if (last) clock_.watch(filled, work.begin, work.samples);
    gradients->token = last ? std::exchange(emission->token, nullptr) : emission->token;
    gradients->step = step;
    gradients->replica = index;
    gradients->bucket = number;
    gradients->buckets = static_cast<int>(buckets.size());
    gradients->data = bucket.gradients;
    gradients->elements = bucket.elements;
    gradients->ready = std::move(filled);
    Packet packet;
    packet.payload = std::move(gradients);
    packet.sequence = step;
    packet.replica = index;
    output.emit(kGradients, std::move(packet));
    if (last) emission->hold.reset();
  });
}

}  // namespace millrace
