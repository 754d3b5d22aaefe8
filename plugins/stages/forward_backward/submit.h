// What forward_backward and forward do alike.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "millrace/error.h"
#include "millrace/network.h"
#include "millrace/split.h"
#include "millrace/stage.h"
#include "millrace/step.h"

namespace millrace {

inline Replica& replica_of(const StageContext& context) { return *context.replicas[static_cast<std::size_t>(context.replica)]; }

// The packet's own references, so that the step's token and the batch's credit are let go of before the packet is.
inline Ref<StepToken> take_token(Packet& packet) {
  return Ref<StepToken>::adopt(static_cast<StepToken*>(std::exchange(packet.token, nullptr).detach()));
}
inline Ref<Batch> take_batch(Packet& packet) {
  return Ref<Batch>::adopt(static_cast<Batch*>(std::exchange(packet.payload, nullptr).detach()));
}

// The loss would name the row of a label that is no class; who has to mend it wants the sample.
inline void require_labels(const Batch& batch, const Share& share, const Network& network) {
  const std::int64_t classes = network.output().elements();
  for (std::uint32_t slot = share.begin; slot < share.begin + share.count; ++slot) {
    const std::int32_t label = batch.labels[slot];
    if (batch.weights[slot] == 0 || (label >= 0 && label < classes)) continue;
    const std::string what = label < 0 ? "has no label" : fmt::format("has label {}", label);
    fail(ErrorKind::data, "sample '{}' {}: the loss takes those of the network's {} classes, 0 to {}", batch.samples[slot].place(),
         what, classes, classes - 1);
  }
}

inline Ref<StepResult> make_result(const Batch& batch, const StageContext& context) {
  Ref<StepResult> result = make_ref<StepResult>();
  result->epoch = batch.epoch;
  result->step = batch.step;
  result->replica = context.replica;
  result->replicas = static_cast<int>(context.replicas.size());
  result->stream_hash = batch.stream_hash;
  if (context.hash_input && context.replica == 0) result->stream_hash = combine(batch.stream_hash, hash_of_input(batch));
  return result;
}

// REQUIRES: result->ready is set. Keeps the result, whose sums the device writes, until that has happened: nobody may take it.
inline void send_result(Ref<StepResult> result, int port, Output& output) {
  const Ref<Event> ready = result->ready;
  auto hold = std::make_shared<Output::Hold>(output);
  ready->then([result, hold]() mutable {
    result = nullptr;
    hold = nullptr;
  });
  Packet packet;
  packet.sequence = result->step;
  packet.payload = std::move(result);
  output.emit(port, std::move(packet));
}

}  // namespace millrace
