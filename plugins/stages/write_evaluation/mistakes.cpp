#include "mistakes.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "millrace/metrics/class_scores.h"
#include "millrace/util/output_file.h"

namespace millrace {

Verdict Verdict::of(std::span<const float> outputs, std::size_t label, bool probabilities) {
  const ClassScores scores(outputs, probabilities);
  const double confidence = scores.probability(scores.predicted()), loss = scores.loss(label);
  return {.label = label,
          .predicted = scores.predicted(),
          .confidence = std::isnan(confidence) ? 0 : confidence,
          .loss = std::isnan(loss) ? std::numeric_limits<double>::infinity() : loss};
}

void Mistakes::add(const Verdict& verdict, const Predictions& share, std::size_t sample, const std::vector<std::string>& names) {
  const Predictions::Sample& of = share.samples[sample];
  if (!worst_.counts(verdict.loss, of.key.position)) return;
  const std::string &label = names[verdict.label], &predicted = names[verdict.predicted];
  drawing::KeptSample kept{.loss = verdict.loss, .position = of.key.position, .cell = {}};
  kept.cell.images.push_back(drawing::kept_image(share, sample));
  kept.cell.captions = {{fmt::format("is {}", label)},
                        {fmt::format("as {}", predicted), drawing::kRed},
                        {fmt::format("{:.1f} %, loss {:.2f}", 100 * verdict.confidence, verdict.loss)},
                        {fmt::format("#{} {}", of.key.index, drawing::file_of(of)), drawing::kFaint}};
  append_csv(kept.row, place_of(of));
  fmt::format_to(std::back_inserter(kept.row), ",{},", of.key.index);
  append_csv(kept.row, label);
  kept.row += ',';
  append_csv(kept.row, predicted);
  fmt::format_to(std::back_inserter(kept.row), ",{:.6g},{:.6g}\r\n", verdict.confidence, verdict.loss);
  worst_.add(std::move(kept));
}

std::string Mistakes::csv() const { return "path,index,label,predicted,confidence,loss\r\n" + worst_.rows(); }

drawing::Picture Mistakes::sheet() const {
  drawing::Sheet sheet = worst_.sheet();
  sheet.title = worst_.count() == 0
                    ? "no mistakes"
                    : fmt::format("{} of {} mistakes, highest loss first", worst_.samples().size(), worst_.count());
  return drawing::draw(sheet);
}

std::string place_of(const Predictions::Sample& sample) {
  std::string place;
  sample.append_place(place);
  return place;
}

}  // namespace millrace
