// Filters that whiten image patches, for parameters with the initialiser "whiten" (the first conv of airbench94).
//
// From the patches x of many images: C = mean of x x^T (second moments, as in the paper's code: images are normalised, so the
// mean is near zero), C = V diag(lambda) V^T, filters v_i / sqrt(lambda_i + epsilon), largest eigenvalue first, and then their
// negatives: twice as many filters as a patch has values. Sums and eigenvalues are computed in double, because the halved chroma
// of JPEG files leaves eigenvalues that float32 sums would turn negative. Source: Jordan, "94% on CIFAR-10 in 3.29 seconds on a
// single GPU", arXiv 2404.00498, section 3.2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "millrace/detail/tensor.h"

namespace millrace {

// Sums the second moments of all patches of the added images. One thread at a time.
//
//   PatchStatistics statistics({24, 3, 2, 2});           // the weights' shape
//   for (...) statistics.add(image, 32, 32);             // (C, H, W), normalised
//   std::vector<float> weights = statistics.filters();
class PatchStatistics {
 public:
  // Throws Error(usage) unless `weights` is (2 * C * kh * kw, C, kh, kw).
  explicit PatchStatistics(const Shape& weights);

  // REQUIRES: image.size() == channels * height * width; the image is at least as large as a patch.
  void add(std::span<const float> image, std::int64_t height, std::int64_t width);

  std::uint64_t patches() const { return patches_; }
  std::vector<double> second_moments() const;               // (values, values)
  std::vector<float> filters(double epsilon = 5e-4) const;  // (2 * values, C, kh, kw). REQUIRES: patches() > 0

 private:
  std::int64_t channels_, kernel_height_, kernel_width_, values_;
  std::vector<double> sums_;  // upper triangle of (values, values)
  std::uint64_t patches_ = 0;
};

struct Eigensystem {
  std::vector<double> values;   // (n), largest first
  std::vector<double> vectors;  // (n, n): row i is the unit vector of values[i], its largest component positive
};

// The eigensystem of a symmetric matrix (n, n), by cyclic Jacobi rotations (Golub and van Loan, "Matrix computations", 8.5).
Eigensystem symmetric_eigensystem(std::vector<double> matrix, std::int64_t n);

}  // namespace millrace
