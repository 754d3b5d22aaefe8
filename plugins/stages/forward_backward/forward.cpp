#include "forward.h"

#include <utility>

#include "millrace/split.h"
#include "submit.h"

namespace millrace {

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
  d.name("forward").text("Inference on each replica, for validation.");
  d.input(payload::kBatch).output(payload::kStepResult, "result");
  d.per_replica().stepwise();
  LossParams::describe(
      d.params, "what is reported: the name of a loss (default: cross_entropy), or a table with `rule` and the loss's own keys");
  d.params.add("test_time", &Params::test_time)
      .choices({"none", "flip", "flip_translate"})
      .text("views of an image whose logits are averaged: itself, its mirror image, both shifted by one pixel");
}

void Forward::request(const Params& params, const StageContext& context, CompileRequest& request) {
  request.losses.push_back(make_loss(params, context).loss);
}

Forward::Forward(const Params& params, const StageContext& context)
    : loss_(make_loss(params, context).loss), views_(test_time_views(params.test_time)), context_(context) {}

void Forward::process(int, Packet packet, Output& output) {
  const std::uint64_t begin = now_ticks();
  const Ref<StepToken> token = take_token(packet);  // nothing waits for an update here: the next batch may follow at once
  Ref<Batch> batch = take_batch(packet);
  const Share share = context_.share_of(*batch);
  check_labels(*loss_, *batch, share.begin, share.count, context_.network->output());
  Ref<StepResult> result = make_result(*batch, share, loss_, context_);
  result->sums.resize(1);
  result->ready = replica_of(context_).infer(std::move(batch), share.begin, share.count, views_, loss_, result->sums[0]);
  clock_.watch(result->ready, begin, share.count);
  send_result(std::move(result), 0, output);
}

}  // namespace millrace
