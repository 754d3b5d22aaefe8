// Training batches too small for statistics.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "millrace/backend/fusion.h"
#include "millrace/detail/split.h"
#include "millrace/error.h"
#include "run/doctor/doctor.h"

namespace millrace {
namespace {

// The fewest samples that share statistics in a batch. A replica without a share has none.
std::uint32_t fewest_together(std::uint32_t batch, const CompileRequest& request, const TrainedBatches& batches) {
  if (request.sync_batch_norm) return batch;
  std::uint32_t fewest = batch;
  for (const Share& share : split(batch, batches.replicas, batches.load)) {
    if (share.count > 0) fewest = std::min(fewest, share.count / std::min(share.count, request.micro_batches));
  }
  return fewest;
}

const Layer* first_of_one_value(const Network& network, const CompileRequest& request) {
  const std::vector<bool> computed = layers_for(network, request.loss_outputs(network));
  for (std::size_t index = 0; index < network.layers.size(); ++index) {
    const Layer& layer = network.layers[index];
    if (computed[index] && layer.op == "batch_norm" && layer.output.elements() == layer.output[0]) return &layer;
  }
  return nullptr;
}

}  // namespace

void require_variance(const Network& network, const CompileRequest& request, const TrainedBatches& batches) {
  const Layer* layer = first_of_one_value(network, request);
  if (layer == nullptr) return;
  const auto refuse = [&](const std::string& piece, const std::string& advice) {
    fail(ErrorKind::usage,
         "{}: batch normalisation over one value per channel, whose variance is 0: its maps are 1 x 1, and [{}] computes {}: {}",
         place_of(*layer), batches.graph, piece, advice);
  };
  const bool pieces = request.micro_batches > 1, shares = batches.replicas > 1 && !request.sync_batch_norm;
  if (fewest_together(batches.size, request, batches) == 1) {
    const std::string fewer = pieces   ? fmt::format(", or fewer micro_batches than {}", request.micro_batches)
                              : shares ? ", fewer replicas, or sync_batch_norm = true"
                                       : "";
    refuse(fmt::format("{} of one sample", pieces   ? "a micro-batch"
                                           : shares ? "a replica's share"
                                                    : "a batch"),
           "take a larger batch" + fewer);
  }
  if (batches.last > 0 && fewest_together(batches.last, request, batches) == 1) {
    refuse(fmt::format("one sample by itself in the last batch of an epoch, of {}", batches.last),
           "leave that batch out, last = \"drop\", or take another size");
  }
}

void check_batches(const PreparedRun& run, const Doubt&) {
  for (const auto& build : run.builds) {
    const BatchSpec& batch = build->data().batch;
    if (!run.pipeline.network || !build->trains() || batch.size == 0) continue;
    TrainedBatches batches{.graph = build->plan().name, .size = batch.size, .replicas = run.replicas.all()};
    batches.load = run.replicas.load();
    if (batch.last == BatchSpec::Last::keep)
      batches.last = static_cast<std::uint32_t>(build->data().samples_per_epoch % batch.size);
    try {
      require_variance(*run.pipeline.network, run.replicas.request(), batches);
    } catch (Error& error) {
      throw error.in(place_of(*build->data().batcher, build->plan()));
    }
  }
}

}  // namespace millrace
