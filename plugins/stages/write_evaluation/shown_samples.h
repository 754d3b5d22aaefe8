// Samples of a pass, with what the network said of them.
#pragma once

#include <sheet.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/util/class_colours.h"
#include "mistakes.h"
#include "worst_images.h"

namespace millrace {

// Keeps so many samples, evenly spaced over the pass, as sources often list one class after the other: images with their
// predicted class, and the label where it is another one; or images with their label image and the predicted classes laid over
// them. The same predictions in the same order give the same sheet.
class ShownSamples {
 public:
  // `of`: samples of a pass.
  ShownSamples(std::size_t most, std::uint64_t of, const ClassColours& colours)
      : most_(most), every_(std::max<std::uint64_t>(1, of / std::max<std::size_t>(1, most))), colours_(colours) {}

  // Whether the next sample is to be added; called for each.
  bool takes_next() { return passed_++ % every_ == 0 && sheet_.cells.size() < most_; }
  // REQUIRES: share.batch, and a name for each class.
  void add(const Verdict& verdict, const Predictions& share, std::size_t sample, const std::vector<std::string>& names);
  void add(const PixelVerdict& verdict, const WorstImages::Maps& maps, const Predictions& share, std::size_t sample);
  void clear() {
    sheet_ = {};
    passed_ = 0;
  }

  drawing::Picture sheet(const std::string& graph, const std::vector<std::string>& names) const;

 private:
  drawing::KeptImage overlay(std::vector<std::uint8_t> image, ImageShape shape, std::span<const std::uint8_t> classes,
                             ImageShape map) const;

  std::size_t most_;
  std::uint64_t every_, passed_ = 0;
  ClassColours colours_;
  drawing::Sheet sheet_;
};

}  // namespace millrace
