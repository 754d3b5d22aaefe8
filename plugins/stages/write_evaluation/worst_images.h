// The images of a pass whose pixels a network was most wrong about.
#pragma once

#include <sheet.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/util/class_colours.h"
#include "pixel_verdict.h"

namespace millrace {

// Keeps the images of the highest mean loss over their pixels, each beside its label image and the predicted classes, in colours,
// no larger than they are drawn. Among equal losses those that came first stay and stand first. An image without a pixel
// that counts is left out. The same predictions in the same order give the same sheet.
class WorstImages {
 public:
  WorstImages(std::size_t most, const ClassColours& colours) : most_(most), colours_(colours) {}
  static constexpr std::size_t kPanels = 3;  // image, label, prediction

  struct Maps {
    ImageShape shape;  // of both, one channel
    std::span<const std::uint8_t> labels, predicted;
  };
  // REQUIRES: share.batch, unless `most` is 0.
  void add(const PixelVerdict& verdict, const Maps& maps, const Predictions& share, std::size_t sample);
  std::size_t count() const { return count_; }  // that were added
  void clear();

  std::string csv() const;  // a row for each that was kept, the highest loss first
  // The same, row after row; below it the colours of the classes that occur on it.
  drawing::Picture sheet(const std::vector<std::string>& names) const;

 private:
  struct Entry {
    PixelVerdict verdict;
    std::uint64_t index = 0;  // of the sample, in its source
    std::string place, file;  // "shards/3.tar: a/00042.png", "00042.png"
    std::vector<drawing::KeptImage> panels;
    std::vector<std::uint8_t> classes;  // that occur in it, rising
  };

  Entry made(const PixelVerdict& verdict, const Maps& maps, const Predictions& share, std::size_t sample) const;
  drawing::KeptImage coloured(std::span<const std::uint8_t> classes, ImageShape shape) const;

  std::size_t most_, count_ = 0;
  ClassColours colours_;
  std::vector<Entry> worst_;
};

}  // namespace millrace
