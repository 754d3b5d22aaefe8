// What stages ask of the network before it is compiled, in their static request(). Part of batch.h.
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

// How parameters are updated: optimizers with their parameters (optimizer.h), and what belongs to a parameter, by index into
// Network::parameters.
struct OptimizerSpec {
  std::vector<std::shared_ptr<const Optimizer>> optimizers = {};  // empty: parameters are not updated
  std::vector<int> optimizer_of = {};                             // index into `optimizers`; empty: the first
  std::vector<double> rate_factor = {};                           // of the learning rate; empty: 1
  std::vector<double> decay = {};                                 // weight decay times the parameter's factor; empty: 0
  // The epoch from which on the parameter keeps its value whatever its gradient is; kToTheEnd: none. Empty: all learn to the end.
  std::vector<double> learns_until = {};
};

// The gradient of a score, one number of a network's result, by an output of a layer, in inference: with running statistics and
// without dropout (Grad-CAM). The result is a vector.
struct ScoreGradient {
  static constexpr int kPredicted = -1, kLabel = -2;

  LayerPort by;         // what the result depends on
  int of = kPredicted;  // the number's index. kPredicted: of the sample's largest; kLabel: its label

  friend bool operator==(const ScoreGradient&, const ScoreGradient&) = default;
};

// What stages ask of a network before it is compiled, so that the memory plan holds all of it (StageType::request).
struct CompileRequest {
  OptimizerSpec update = {};
  // Names of further copies of parameters and running statistics that lerp_into() moves, such as "slow".
  std::vector<std::string> copies = {};
  // The copy that other graphs than the one that trains see, and that is saved; empty: the values themselves.
  std::string evaluated = {};
  // Batch normalisation takes the mean and variance of the whole batch, over all replicas, through CompileOptions::exchange. A
  // backend that cannot throws Error(usage).
  bool sync_batch_norm = false;
  // A share of a batch is trained in so many pieces, one after the other: keep_gradients() adds theirs up.
  std::uint32_t micro_batches = 1;
  // A stage reads the gradients of all trained parameters together, as for their norm: backward computes them to the end, also
  // those that OptimizerSpec::learns_until makes useless.
  bool reads_all_gradients = false;
  // Losses that will be measured. A loss outside this list allocates memory at its first use, and on a GPU it finds labels but no
  // other targets. Training computes every `output` of this list; inference measures at the network's result alone.
  std::vector<LossAt> losses = {};
  // Values that read_outputs() will read: the network's result, outputs of layers. In inference they are not computed together
  // with the layer after them, and are kept until they are read. Layers that lead to nothing that is read are not computed.
  std::vector<LayerPort> outputs = {};
  // What read_gradients() will read. A backend that cannot compute them throws Error(usage).
  std::vector<ScoreGradient> gradients = {};
  // Predictions come with the batch that they were made of (Predictions::batch).
  bool needs_image = false;
  // infer() will be asked for more than the image as it is: the sum of the views is in the memory plan. Without it a backend may
  // allocate that memory at the first such call.
  bool sums_views = false;

  void read(LayerPort value) {  // once, however often it is asked for
    if (std::find(outputs.begin(), outputs.end(), value) == outputs.end()) outputs.push_back(value);
  }
  void read_gradient(const ScoreGradient& gradient) {
    if (std::find(gradients.begin(), gradients.end(), gradient) == gradients.end()) gradients.push_back(gradient);
  }
  // Where training's losses are measured beside the network's result, each value once.
  std::vector<LayerPort> loss_outputs(const Network& network) const;
};

}  // namespace millrace
