// The images of a pass with the worst predictions of pixels.
#pragma once

#include <kept_samples.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/util/class_colours.h"
#include "pixel_verdict.h"

namespace millrace {

// Keeps the images of highest mean loss over their pixels, each with its label image and the predicted classes, in colours, at
// most at their drawn size. Among equal losses, those early in the pass stay and come first. Images without a counted pixel are
// left out.
class WorstImages {
 public:
  WorstImages(std::size_t most, const ClassColours& colours) : colours_(colours), worst_(most) {}
  static constexpr std::size_t kPanels = 3;  // image, label, prediction

  struct Maps {
    ImageShape shape;  // shape of both, one channel
    std::span<const std::uint8_t> labels, predicted;
  };
  // REQUIRES: share.batch, unless `most` is 0.
  void add(const PixelVerdict& verdict, const Maps& maps, const Predictions& share, std::size_t sample);
  void join(JointSink& processes) { worst_.join(processes); }
  void clear() { worst_.clear(); }

  std::string csv() const;  // one row per kept image, highest loss first
  // The same, row by row, with the colours of the classes that occur below.
  drawing::Picture sheet(const std::vector<std::string>& names) const;

 private:
  drawing::KeptImage coloured(std::span<const std::uint8_t> classes, ImageShape shape) const;

  ClassColours colours_;
  drawing::KeptSamples worst_;
};

std::vector<std::uint8_t> classes_in(const WorstImages::Maps& maps);  // in labels and predictions, ascending
// The classes that occur on a sheet, with their colours.
std::vector<drawing::Caption> legend_of(const drawing::KeptSamples& shown, const std::vector<std::string>& names,
                                        const ClassColours& colours);

}  // namespace millrace
