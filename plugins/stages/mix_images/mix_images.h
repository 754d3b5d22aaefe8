#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "millrace/batch.h"
#include "millrace/sample.h"
#include "millrace/stage.h"

namespace millrace {

// Executes each slot's record, so that all slots have the same window, in the middle; sizes stay.
void execute_records(Batch& batch);

// Calls mix(slot, partner's original pixels) for every slot with weight whose partner, `shift` further around the batch, has
// weight too. REQUIRES: 0 < shift < batch.count.
template <class MixSlot>
void for_each_pair(Batch& batch, std::uint32_t shift, std::uint8_t* first, MixSlot mix) {
  const std::size_t bytes = batch.image.bytes();
  std::uint32_t left = batch.count;
  // Steps of `shift` form one or several rings; in each, only the slot changed first is needed again, at the end.
  for (std::uint32_t start = 0; left > 0; ++start) {
    std::copy_n(batch.pixels + start * bytes, bytes, first);
    for (std::uint32_t slot = start;; --left) {
      const std::uint32_t partner = (slot + shift) % batch.count;
      const bool whole = batch.weights[slot] > 0 && batch.weights[partner] > 0;
      if (whole) mix(slot, partner, partner == start ? first : batch.pixels + partner * bytes);
      if (partner == start) {
        --left;
        break;
      }
      slot = partner;
    }
  }
}

// A draw from the beta distribution with both parameters alpha, as one gamma variate's share of the sum of two (Marsaglia and
// Tsang, "A simple method for generating gamma variables", 2000). REQUIRES: alpha > 0.
double draw_beta(Draw& draw, double alpha);

// Mixes the images of a batch with each other, and their labels by the same shares.
//
//   [train]
//   flow = ["read", "decode_image", "augment", "batch", "mix_images", "forward_backward", ...]
//   [train.mix_images]
//   mixup  = { chance = 0.5, alpha = 0.2 }   # both pictures at once
//   cutmix = { chance = 0.5, alpha = 1.0 }   # a rectangle of the other
//
// MixUp: Zhang et al., arXiv 1710.09412. CutMix: Yun et al., arXiv 1905.04899. As in those papers, one share (from a beta
// distribution), one rectangle (its middle anywhere, cut off at the edges) and one partner rule hold for a whole batch: slot i is
// mixed with slot i + shift, modulo the batch. Shares are rounded to 1/256, or to the rectangle's area, so that labels and pixels
// agree.
//
// Ports: in, out: Batch. Stands after `batch`, before all other stages that take batches: it changes pixels in their slots,
// executes their records (partners have different ones) and writes second_labels and shares. The loss of a mixed image is share *
// loss(label) + (1 - share) * loss(second label). A mixed batch has no Batch::source_maps. Slots of weight 0 are not changed, and
// no image is mixed with them.
//
// Order of draws, from a generator of (seed, epoch, step, the stage's name): which of the two; the shift; the share; for cutmix
// the middle's row and column. A batch of less than two samples draws nothing.
//
// Threading: parallel; a batch is mixed by one thread.
//
// Errors: no rule, chances that add up to more than 1, batches with targets or numbers to predict: ErrorKind::usage. So is a run
// of several processes: partners come from the whole batch, of which each process has only a part, and the weights must equal
// those of one process.
class MixImages : public Transform<Batch, Batch> {
 public:
  struct Rule {
    double chance = 1;
    double alpha = 1;
  };
  struct Params {
    std::optional<Rule> mixup, cutmix;
  };
  static void describe(StageDescription<Params>& description);

  MixImages(const Params& params, const DataContext& context);
  using Transform<Batch, Batch>::process;
  void process(Batch& batch, const Packet& packet, Output& output) override;

 private:
  void mix(Batch& batch) const;

  Rule mixup_{0}, cutmix_{0};
  std::uint64_t seed_, name_hash_;
};

}  // namespace millrace
