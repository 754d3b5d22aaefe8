// Shared by forward_backward and forward.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/batch.h"
#include "millrace/error.h"
#include "millrace/stage.h"
#include "millrace/util/batch_input.h"

namespace millrace {

inline Replica& replica_of(const StepContext& context) { return *context.replicas[static_cast<std::size_t>(context.replica)]; }

// Takes the packet's own references, so that the step's token and the batch's credit are released before the packet.
inline Ref<StepToken> take_token(Packet& packet) {
  return Ref<StepToken>::adopt(static_cast<StepToken*>(std::exchange(packet.token, nullptr).detach()));
}
inline Ref<Batch> take_batch(Packet& packet) {
  return Ref<Batch>::adopt(static_cast<Batch*>(std::exchange(packet.payload, nullptr).detach()));
}

inline Ref<StepResult> make_result(const Batch& batch, const Share& share, const std::shared_ptr<const Loss>& loss,
                                   const StepContext& context) {
  Ref<StepResult> result = make_ref<StepResult>();
  result->loss = loss;
  for (std::uint32_t slot = share.begin; slot < share.begin + share.count; ++slot)
    result->samples += static_cast<double>(batch.weights[slot]);
  result->epoch = batch.epoch;
  result->step = batch.step;
  result->replica = context.replica;
  result->replicas = static_cast<int>(context.replicas.size());
  result->stream_hash = batch.stream_hash;
  if (context.hash_input && context.replica == 0) result->stream_hash = combine(batch.stream_hash, hash_of_input(batch));
  return result;
}

// Sends a StepResult or Predictions. REQUIRES: payload->ready is set. Holds the payload, which the device writes, until then,
// even if no port takes it.
template <class T>
void send_unfinished(Ref<T> payload, int port, Output& output) {
  const Ref<Event> ready = payload->ready;
  auto hold = std::make_shared<Output::Hold>(output);
  ready->then([payload, hold](const Error*) mutable {  // readers of the payload meet a failure
    payload = nullptr;
    hold = nullptr;
  });
  Packet packet;
  packet.sequence = payload->step;
  packet.payload = std::move(payload);
  output.emit(port, std::move(packet));
}

}  // namespace millrace
