// Judges the pixels of images, and keeps the images with the worst predictions.
#pragma once

#include <kept_samples.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calibration.h"
#include "millrace/batch.h"
#include "millrace/util/class_colours.h"

namespace millrace {

// Sums over the counted pixels of one image.
struct PixelVerdict {
  double pixels = 0, right = 0;
  double loss = 0;  // -log of the probability of each pixel's label; infinite if that is 0 or NaN

  double mean_loss() const { return pixels > 0 ? loss / pixels : 0; }
};

// Adds each pixel to a pass's counts, by the rules of Verdict. Not thread-safe.
class PixelJudge {
 public:
  PixelJudge(std::size_t classes, bool probabilities) : classes_(classes), probabilities_(probabilities) {}

  // `outputs`: (classes, pixels). `labels`: a class for each pixel; pixels whose label is not a class are left out. `matrix`:
  // counts by (class, predicted class).
  PixelVerdict judge(std::span<const float> outputs, std::span<const std::uint8_t> labels, std::span<double> matrix,
                     Calibration& calibration);
  const std::vector<std::uint8_t>& predicted() const { return predicted_; }  // in the last image, including unlabelled pixels

 private:
  std::size_t classes_;
  bool probabilities_;
  std::vector<std::uint8_t> predicted_;
  std::vector<float> of_pixel_;
};

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
