#include "label_scores.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace millrace {
namespace {

std::optional<double> average_precision_of(std::span<const LabelScore> scores, std::size_t having) {
  if (having == 0) return std::nullopt;
  std::vector<LabelScore> ranked(scores.begin(), scores.end());
  for (LabelScore& each : ranked) {
    if (std::isnan(each.score)) each.score = -std::numeric_limits<float>::infinity();
  }
  std::ranges::sort(ranked, std::greater{}, &LabelScore::score);
  double area = 0;
  std::size_t found = 0;
  for (std::size_t begin = 0, end = 0; begin < ranked.size(); begin = end) {
    const std::size_t before = found;
    for (; end < ranked.size() && ranked[end].score == ranked[begin].score; ++end) found += ranked[end].has ? 1 : 0;
    area += static_cast<double>(found) / static_cast<double>(end) * static_cast<double>(found - before);
  }
  return area / static_cast<double>(having);
}

}  // namespace

LabelFigures LabelFigures::of(std::span<const LabelScore> scores) {
  LabelFigures figures;
  figures.count = scores.size();
  for (const LabelScore& each : scores) {
    figures.having += each.has ? 1 : 0;
    figures.predicted += each.predicted ? 1 : 0;
    figures.right += each.has && each.predicted ? 1 : 0;
  }
  figures.average_precision = average_precision_of(scores, figures.having);
  return figures;
}

}  // namespace millrace
