#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/batch.h"
#include "millrace/stage.h"
#include "millrace/util/bad_sample_budget.h"
#include "millrace/util/batcher.h"

namespace millrace {

// Counts samples into batches and decides what becomes of bad ones. Pixels are in their slots already where the stage before
// wrote them there; others are copied once.
//
//   [train.batch]
//   size        = 256         # the global batch; or per_device = 64, which the framework turns into `size`
//   bad_samples = "replace"   # or "skip", "fail"
//
// In a graph that makes predictions each sample comes once: the last batch is kept, and bad samples are skipped.
//
// Ports: in, ImageChunk: (batch.image) uint8. out, Batch: complete, sequence = its step. retry, SampleChunk: one slot whose
// sample is to be read again with attempt + 1; the graph leads it back to the source under the same batch's credit.
// A replaced sample is another one, drawn from (seed, epoch, position, attempt): nothing else of the stream changes.
// A skipped sample keeps its slot with weight 0, black pixels and a target that counts nowhere, as do the slots that an epoch's
// last batch leaves over. A target (of segmentation) is kept beside its image.
// An image larger than the network's input is seen through a window in its middle, unless an `augment` placed it.
// State: which places of the newest epochs had a bad sample, of all ranks, so that a run that goes on counts each of them once.
// Threading: parallel; samples are counted down in the batch without a lock, bad ones are noted under one.
// Errors: images of varying size, or too small for the network (in the constructor), or changed after a cache whose images
// devices keep: ErrorKind::usage. More bad samples than `bad_sample_budget` allows, or kMostAttempts bad ones in a row for one
// place: ErrorKind::data. "fail": ErrorKind::content.
class BatchSamples : public Batcher, public HasBadSampleBudget {
 public:
  struct Params {
    std::int64_t size = 0, per_device = 0;
    std::int64_t buffers = 3;
    std::string last = "auto";
    std::string bad_samples = "auto";
    double bad_sample_budget = 0.01;
  };
  static constexpr std::uint32_t kMostAttempts = 16;
  static constexpr std::uint64_t kLeastBudget = 10;  // bad samples of an epoch that a fraction allows in any case

  static void describe(StageDescription<Params>& description);

  BatchSamples(const Params& params, const DataContext& context);
  BatchSpec spec() const override { return spec_; }
  std::uint64_t bad_sample_budget() const override { return policy_ == Policy::fail ? 0 : budget_; }
  std::string take_found() override;
  void count_found(std::string_view found) override;
  void process(int port, Packet packet, Output& output) override;
  ImageShape image_shape() const override { return image_; }
  std::string save() const override;
  void restore(std::string_view saved) override;

 private:
  enum class Policy { replace, skip, fail };
  using Places = std::set<std::pair<std::uint64_t, std::uint32_t>>;  // position and attempt
  using Epochs = std::map<std::uint64_t, Places>;                    // or passes

  static BatchSpec::Last last_of(const Params& params, const DataContext& context);
  static Policy policy_of(const Params& params, const DataContext& context);
  void take(Batch& batch, std::uint32_t slot) const;
  void check_pixels(Batch& batch, std::uint32_t slot) const;
  void check_target(Batch& batch, std::uint32_t slot) const;
  void check_numbers(const Batch& batch, Sample& sample) const;
  [[noreturn]] void refuse_change() const;
  bool refuse(Batch& batch, std::uint32_t slot);  // whether the slot is done with, at weight 0
  void count_bad(const Batch& batch, const Sample& sample);
  std::string place_of_all() const;  // where all bad samples are named; "": the run has no folder
  static void forget_old(Epochs& epochs);
  static std::string text_of(const Epochs& epochs);
  static Epochs epochs_in(std::string_view text);
  static void blank(Batch& batch, std::uint32_t slot);
  static void complete(Batch& batch);

  BatchSpec spec_;
  Policy policy_;
  std::string graph_, name_;
  ImageShape image_;
  RunServices* run_;
  std::uint64_t budget_;  // bad samples of an epoch, or of a pass of another graph

  mutable std::mutex mutex_;
  Epochs bad_;    // of the newest epochs or passes
  Epochs found_;  // the part of it that other ranks do not know yet
  Epochs bad_in_rehearsal_;
};

}  // namespace millrace
