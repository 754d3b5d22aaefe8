// The first samples of a pass, with what the network said of them.
#pragma once

#include <sheet.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/util/class_colours.h"
#include "mistakes.h"
#include "worst_images.h"

namespace millrace {

// Keeps so many samples as they come: images with their predicted class, beside the label where it is another one; or images with
// their label image and the predicted classes laid over them. The same predictions in the same order give the same sheet.
class FirstSamples {
 public:
  FirstSamples(std::size_t most, const ClassColours& colours) : most_(most), colours_(colours) {}

  bool is_full() const { return sheet_.cells.size() >= most_; }
  // REQUIRES: share.batch, and a name for each class.
  void add(const Verdict& verdict, const Predictions& share, std::size_t sample, const std::vector<std::string>& names);
  void add(const PixelVerdict& verdict, const WorstImages::Maps& maps, const Predictions& share, std::size_t sample);
  void clear() { sheet_ = {}; }

  drawing::Picture sheet(const std::string& graph) const;

 private:
  drawing::KeptImage overlay(std::vector<std::uint8_t> image, ImageShape shape, std::span<const std::uint8_t> classes,
                             ImageShape map) const;

  std::size_t most_;
  ClassColours colours_;
  drawing::Sheet sheet_;
};

}  // namespace millrace
