#include "millrace/pixel_loss.h"

#include <cmath>

namespace millrace {
namespace {

// Means over the classes that occur of `part`(right, pixels of the class, pixels predicted as it).
template <class Part>
double mean_over_classes(std::span<const double> matrix, const Part& part) {
  const auto classes = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(matrix.size()))));
  double total = 0, occurring = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    double of = 0, as = 0;
    for (std::size_t other = 0; other < classes; ++other) {
      of += matrix[c * classes + other];
      as += matrix[other * classes + c];
    }
    if (of == 0) continue;
    total += part(matrix[c * classes + c], of, as);
    occurring += 1;
  }
  return quotient(total, occurring);
}

}  // namespace

double PixelLoss::mean_accuracy(std::span<const double> sums) {
  return mean_over_classes(sums.subspan(kPixels + 1), [](double right, double of, double) { return right / of; });
}

double PixelLoss::mean_iou(std::span<const double> sums) {
  return mean_over_classes(sums.subspan(kPixels + 1),
                           [](double right, double of, double as) { return right / (of + as - right); });
}

}  // namespace millrace
