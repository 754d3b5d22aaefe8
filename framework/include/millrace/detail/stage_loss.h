// Losses in a stage's table, and checks of their targets. Included by loss.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/loss_at.h"
#include "millrace/loss.h"
#include "millrace/params.h"

namespace millrace {

class Network;
struct StageSite;

// Parameters of a stage that works with a loss: its Params derive from this, and its describe() calls this one's. The table holds
// `type`, the loss's name, `reduction` and the loss's own keys.
struct LossParams {
  Value loss;

  template <class Params>
  static void describe(ParamSet<Params>& set, std::string_view text) {
    set.add("loss", &LossParams::loss).text(text);
  }
};
struct StageLoss : LossAt {
  std::string name = {};  // for an auxiliary loss's metric: the layer, or else the loss
};
// Makes the loss of the stage's table. Throws Error(usage) with all mistakes in the table.
StageLoss make_loss(const LossParams& params, const StageSite& site);

// A loss that a training stage minimises in addition to the one of LossParams, in its list `auxiliary`.
struct AuxiliaryLoss {
  std::string output;
  double weight = 1;
  Value loss;

  static void describe(ParamSet<AuxiliaryLoss>& set);
};
// The stage's loss, then the auxiliary ones. Throws Error(usage) with all mistakes. REQUIRES: the site has a network.
std::vector<StageLoss> make_losses(const LossParams& params, const std::vector<AuxiliaryLoss>& auxiliary, const StageSite& site);
// The value that `output` names; empty for the network's result. Throws Error(usage) if no layer has it, or a layer reads it.
std::optional<LayerPort> find_loss_output(const Network& network, const std::string& name);

// Throws Error(usage) if the output does not fit the loss, or the pipeline has no such target.
void check_loss(const Loss& loss, const LossSetting& setting);
// Throws Error(data) naming a sample of slots [begin, begin + count) whose label is not a class of the output, or whose numbers
// the loss does not support.
void check_labels(const Loss& loss, const Batch& batch, std::uint32_t begin, std::uint32_t count, const Shape& output);
// Number of pixels of each class in the target images of these slots as the network sees them, weighted by sample.
std::vector<double> count_target_classes(const Batch& batch, Share slots);

}  // namespace millrace
