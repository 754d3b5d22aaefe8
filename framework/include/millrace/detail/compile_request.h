// Requests of stages to the network before it is compiled, made in their static request(). Part of batch.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/detail/layer_plan.h"
#include "millrace/detail/loss_at.h"

namespace millrace {

class Network;
class Optimizer;

// How parameters are updated: optimizers with their parameters (optimizer.h), and settings for each parameter, by index into
// Network::parameters.
struct OptimizerSpec {
  std::vector<std::shared_ptr<const Optimizer>> optimizers = {};  // empty: parameters are not updated
  std::vector<int> optimizer_of = {};                             // index into `optimizers`; empty: the first
  std::vector<double> rate_factor = {};                           // multiplies the learning rate; empty: 1
  std::vector<double> decay = {};                                 // weight decay times the parameter's factor; empty: 0
  // The epoch from which the parameter keeps its value whatever its gradient; kToTheEnd: never. Empty: all learn to the end.
  std::vector<double> learns_until = {};
};

// The gradient of a score, one number of a network's result, by a layer's output, in inference: with running statistics and
// without dropout (Grad-CAM). The result must be a vector.
struct ScoreGradient {
  static constexpr int kPredicted = -1, kLabel = -2;

  LayerPort by;         // a value on which the result depends
  int of = kPredicted;  // the number's index. kPredicted: that of the sample's largest number; kLabel: its label

  friend bool operator==(const ScoreGradient&, const ScoreGradient&) = default;
};

// Everything that stages request of a network before it is compiled, so that the memory plan includes it (StageType::request).
struct CompileRequest {
  OptimizerSpec update = {};
  // Names of further copies of parameters and running statistics that lerp_into() updates, such as "slow".
  std::vector<std::string> copies = {};
  // The copy that is saved and that graphs other than the training graph use; empty: the values themselves.
  std::string evaluated = {};
  // Batch normalisation uses the mean and variance of the whole batch, over all replicas, through CompileOptions::all_gather. A
  // backend without this throws Error(usage).
  bool sync_batch_norm = false;
  // A share of a batch is trained in this many pieces, one after the other: keep_gradients() adds their gradients.
  std::uint32_t micro_batches = 1;
  // A stage reads the gradients of all trained parameters together, for example for their norm: backward then computes all of
  // them, even those that OptimizerSpec::learns_until makes useless.
  bool reads_all_gradients = false;
  // Losses that will be measured. A loss outside this list allocates memory at its first use, and on a GPU it has access to
  // labels but no other targets. Training computes every `output` of this list; inference measures only at the network's result.
  std::vector<LossAt> losses = {};
  // Values that read_outputs() will read: the network's result, outputs of layers. In inference they are not fused with the next
  // layer, and are kept until they are read. Layers that contribute to no such value are not computed.
  std::vector<LayerPort> outputs = {};
  // Gradients that read_gradients() will read. A backend that cannot compute them throws Error(usage).
  std::vector<ScoreGradient> gradients = {};
  // Predictions keep their batch (Predictions::batch).
  bool needs_image = false;
  // infer() will be called with views other than the plain image: the memory plan includes the sum of views. Otherwise a backend
  // may allocate that memory at the first such call.
  bool sums_views = false;
  // Inference may differ in its last bits from what a replica that trains would infer: constants may be folded, such as batch
  // normalisation into the convolution before it.
  bool may_fold = false;

  void read(LayerPort value) {  // repeated requests count once
    if (std::find(outputs.begin(), outputs.end(), value) == outputs.end()) outputs.push_back(value);
  }
  void read_gradient(const ScoreGradient& gradient) {
    if (std::find(gradients.begin(), gradients.end(), gradient) == gradients.end()) gradients.push_back(gradient);
  }
  // Where training measures losses in addition to the network's result, each value once.
  std::vector<LayerPort> loss_outputs(const Network& network) const;
};

}  // namespace millrace
