// Samples of a pass with the network's verdict.
#pragma once

#include <kept_samples.h>

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

// Keeps this many samples, evenly spaced over the pass because sources often list one class after the other: images with their
// predicted class, and their label if it differs; or images with their label image and an overlay of the predicted classes.
class ShownSamples {
 public:
  // `of`: samples in a pass.
  ShownSamples(std::size_t most, std::uint64_t of, const ClassColours& colours)
      : spaced_(most, of), colours_(colours), shown_(most) {}

  bool takes(std::uint64_t position) const { return spaced_.takes(position) && shown_.takes(0, position); }
  // REQUIRES: takes() its position, share.batch, and a name for each class.
  void add(const Verdict& verdict, const Predictions& share, std::size_t sample, const std::vector<std::string>& names);
  void add(const PixelVerdict& verdict, const WorstImages::Maps& maps, const Predictions& share, std::size_t sample);
  void join(JointSink& processes) { shown_.join(processes); }
  void clear() { shown_.clear(); }

  // `heading`: "of 100 images of validate".
  drawing::Picture sheet(const std::string& heading, const std::vector<std::string>& names) const;

 private:
  drawing::KeptImage overlay(std::vector<std::uint8_t> image, ImageShape shape, std::span<const std::uint8_t> classes,
                             ImageShape map) const;

  drawing::EvenlySpaced spaced_;
  ClassColours colours_;
  drawing::KeptSamples shown_;
};

}  // namespace millrace
