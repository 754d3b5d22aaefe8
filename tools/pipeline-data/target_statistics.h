// Figures of what is to be predicted, where that is no label: the pixels of label images, and columns of numbers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "millrace/sample.h"

namespace millrace {

// The pixels of each class.
class PixelCounts {
 public:
  struct Class {
    std::uint64_t pixels = 0;
    std::uint64_t images = 0;     // in which it occurs
    std::uint64_t of_images = 0;  // all of their pixels
  };

  void add(const Image& classes, std::uint8_t ignored);
  void add(const PixelCounts& other);

  std::uint64_t images() const { return images_; }
  std::uint64_t counted() const { return counted_; }  // pixels, but for ignored ones
  std::uint64_t ignored() const { return ignored_; }
  std::size_t classes() const;                        // up to the last one that occurs
  const Class& operator[](std::size_t index) const { return classes_[index]; }

  // Median frequency balancing (Eigen and Fergus, arXiv 1411.4734): a class's frequency is its share in the images in which it
  // occurs, its weight the median frequency over its own. Of the first `count` classes; 0 for one that never occurs.
  std::vector<double> median_frequency_weights(std::size_t count) const;

 private:
  std::array<Class, 256> classes_{};
  std::uint64_t images_ = 0, counted_ = 0, ignored_ = 0;
};

// One column of numbers. Mean and deviation by Welford's method, merged by Chan's: they stand large numbers that differ little.
class NumberColumn {
 public:
  void add(double value);
  void add(const NumberColumn& other);

  std::uint64_t count() const { return count_; }
  double least() const { return least_; }
  double most() const { return most_; }
  double mean() const { return mean_; }
  double deviation() const;

 private:
  std::uint64_t count_ = 0;
  double least_ = 0, most_ = 0, mean_ = 0;
  double squares_ = 0;  // of the differences from the mean, added up
};

}  // namespace millrace
