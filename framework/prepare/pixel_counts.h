// Counts the pixels of each class in label images.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "millrace/sample.h"

namespace millrace {

// Pixel counts of each class.
class PixelCounts {
 public:
  struct Class {
    std::uint64_t pixels = 0;
    std::uint64_t images = 0;     // those with the class
    std::uint64_t of_images = 0;  // all pixels of these images
  };

  void add(const Image& classes, std::uint8_t ignored);
  void add(const PixelCounts& other);

  std::uint64_t images() const { return images_; }
  std::uint64_t counted() const { return counted_; }  // pixels that are not ignored
  std::uint64_t ignored() const { return ignored_; }
  std::size_t classes() const;  // up to the last occurring one
  const Class& operator[](std::size_t index) const { return classes_[index]; }

  // Median frequency balancing (Eigen and Fergus, arXiv 1411.4734): a class's frequency is its share in the images in which it
  // occurs, its weight the median frequency over its own. Returns the first `count` classes; 0 for one that never occurs.
  std::vector<double> median_frequency_weights(std::size_t count) const;

 private:
  std::array<Class, 256> classes_{};
  std::uint64_t images_ = 0, counted_ = 0, ignored_ = 0;
};

}  // namespace millrace
