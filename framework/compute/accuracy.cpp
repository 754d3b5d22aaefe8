#include "millrace/metrics/accuracy.h"

#include <span>

namespace millrace {

const std::vector<LossFigure>& Accuracy::figures() {
  using Sums = std::span<const double>;
  static const std::vector<LossFigure> figures = {
      {
          .name = "accuracy",
          .text = "images whose class has the largest output",
          .better = LossFigure::Better::higher,
          .percent = true,
          .finish = [](Sums sums) { return quotient(sums[kCorrect], sums[kImages]); },
      },
      {
          .name = "top5",
          .text = "images whose class is among the five largest outputs",
          .better = LossFigure::Better::higher,
          .percent = true,
          .finish = [](Sums sums) { return quotient(sums[kCorrect5], sums[kImages]); },
          .least_outputs = 6,
      },
  };
  return figures;
}

}  // namespace millrace
