#pragma once

#include <sheet.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/batch.h"
#include "millrace/stage.h"
#include "millrace/util/class_colours.h"

namespace millrace {

// Draws the images of the first batches as the network sees them (augmented, mixed and with noise), and how often each class
// occurs in the first epoch.
//
//   [train]
//   flow = ["read", "decode_image", "augment", "batch", "write_batches", "forward_backward", ...]
//
// Writes into the run's folder:
//   first_batches.png   images with their labels, mixed ones with both, next to their label images in class colours or target images
//   labels.png          samples per class in the first epoch, written after it or when the run ends; not for targets of pixels or
//                       numbers
//
// Ports: in, Batch, in any order of steps, forwarded unchanged and released at once. A resumed run keeps the pictures from its
// beginning. A run without a folder, or a build that cannot draw, writes nothing. With several processes, the first draws its own
// part of each batch. Memory: the images of the sheet. Threading: pictures are drawn and written on a separate thread; failures
// there are warnings.
class WriteBatches : public Sink<Batch> {
 public:
  struct Params {
    std::int64_t images = 48;
  };
  static void describe(StageDescription<Params>& d);
  WriteBatches(const Params& params, const DataContext& context);
  ~WriteBatches() override { stop(); }

  void open() override;
  void process(Batch& batch, Output& output) override;
  void stop() noexcept override;
  std::size_t memory_bound() const override {
    return drawing::sheet_memory_bound(images_, has_targets() ? 2 : 1, context_.window);
  }

 private:
  bool has_targets() const { return context_.target.kind != TargetSpec::Kind::none; }
  void add(const Batch& batch);
  drawing::SheetCell cell(const Batch& batch, std::uint32_t slot) const;
  void count(const Batch& batch);
  drawing::KeptImage seen(const Batch& batch, std::uint32_t slot) const;
  drawing::KeptImage target(const Batch& batch, std::uint32_t slot) const;
  std::vector<drawing::Caption> captions(const Batch& batch, std::uint32_t slot) const;
  std::string name_of(std::int32_t label) const;
  drawing::Picture draw_sheet();
  drawing::Picture draw_labels() const;
  void begin_writing(bool epoch_is_over);
  void write(const char* name, const std::function<std::string()>& png);  // warns if that fails

  const std::size_t images_;
  const DataContext context_;
  ClassColours colours_;
  std::string folder_;                                    // empty: nothing is written
  using Place = std::pair<std::uint64_t, std::uint32_t>;  // step and slot
  std::map<Place, drawing::SheetCell> cells_;
  std::vector<double> counts_;  // by label
  std::uint64_t batches_ = 0, last_step_ = 0;
  bool has_first_step_ = false, is_behind_epoch_ = false, sheet_begun_ = false, done_ = false;
  std::thread writer_;
};

}  // namespace millrace
