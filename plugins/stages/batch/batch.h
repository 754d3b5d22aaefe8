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

// Collects samples into batches and handles bad samples. Pixels that the stage before wrote into their slots stay there; others
// are copied once.
//
//   [train.batch]
//   size        = 256         # the global batch; or per_device = 64, which the framework turns into `size`
//   bad_samples = "replace"   # or "skip", "fail"
//
// In a prediction graph each sample comes once: the last batch is kept, and bad samples are skipped.
//
// Ports: in, ImageChunk: (batch.image) uint8. out, Batch: complete, sequence = its step. retry, SampleChunk: one slot to read
// again with attempt + 1; the graph returns it to the source under the same batch's credit. "replace" draws another sample from
// (seed, epoch, position, attempt); the rest of the stream stays the same. A skipped sample keeps its slot with weight 0, black
// pixels and an ignored target; so do unused slots of an epoch's last batch. A segmentation target is stored with its image. The
// network sees the middle window of a larger image, unless an `augment` placed it.
// State: the places of bad samples in the newest epochs, over all ranks, so that a resumed run counts each once. Threading:
// parallel; samples are counted down in the batch without a lock, bad ones are noted under one.
// Errors: images of varying size, or too small for the network (in the constructor), or changed after a cache that keeps images
// on devices: ErrorKind::usage. More bad samples than `bad_sample_budget` allows, or kMaxAttempts bad samples in a row for one
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
  static constexpr std::uint32_t kMaxAttempts = 16;
  static constexpr std::uint64_t kLeastBudget = 10;  // bad samples per epoch that a fraction always allows

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
  using Epochs = std::map<std::uint64_t, Places>;                    // or pass

  static BatchSpec::Last last_of(const Params& params, const DataContext& context);
  static Policy policy_of(const Params& params, const DataContext& context);
  void take(Batch& batch, std::uint32_t slot) const;
  void check_pixels(Batch& batch, std::uint32_t slot) const;
  void check_target(Batch& batch, std::uint32_t slot) const;
  void check_numbers(const Batch& batch, Sample& sample) const;
  [[noreturn]] void refuse_change() const;
  bool refuse(Batch& batch, std::uint32_t slot);  // true if the slot is finished, with weight 0
  void count_bad(const Batch& batch, const Sample& sample);
  std::string place_of_all() const;  // the list of all bad samples; "" if the run has no folder
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
  std::uint64_t budget_;  // bad samples per epoch, or per pass of another graph

  mutable std::mutex mutex_;
  Epochs bad_;    // the newest epochs or passes
  Epochs found_;  // the part not yet known to other ranks
  Epochs bad_in_rehearsal_;
};

}  // namespace millrace
