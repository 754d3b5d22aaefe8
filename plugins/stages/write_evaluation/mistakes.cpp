#include "mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "millrace/util/output_file.h"

namespace millrace {
Verdict Verdict::of(std::span<const float> outputs, std::size_t label, bool probabilities) {
  Verdict verdict;
  verdict.label = label;
  const auto key = [](float value) { return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value; };
  const auto largest = std::max_element(outputs.begin(), outputs.end(), [&](float a, float b) { return key(a) < key(b); });
  verdict.predicted = static_cast<std::size_t>(largest - outputs.begin());
  const double most = outputs[verdict.predicted];
  if (probabilities) {
    verdict.confidence = most;
    verdict.loss = -std::log(double{outputs[label]});
  } else {
    double sum = 0;
    for (const float value : outputs) sum += std::exp(value - most);
    verdict.confidence = 1 / sum;
    verdict.loss = std::log(sum) + most - outputs[label];
  }
  if (std::isnan(verdict.confidence)) verdict.confidence = 0;
  if (std::isnan(verdict.loss)) verdict.loss = std::numeric_limits<double>::infinity();
  return verdict;
}

void Mistakes::add(const Verdict& verdict, const Predictions& share, std::size_t sample, const std::vector<std::string>& names) {
  ++count_;
  const Predictions::Sample& of = share.samples[sample];
  if (!worst_.takes(verdict.loss, of.key.position)) return;
  const std::string &label = names[verdict.label], &predicted = names[verdict.predicted];
  drawing::KeptSample kept{.loss = verdict.loss, .position = of.key.position, .cell = {}};
  kept.cell.images.push_back(kept_image(share, sample));
  kept.cell.captions = {{fmt::format("is {}", label)},
                        {fmt::format("as {}", predicted), drawing::kRed},
                        {fmt::format("{:.1f} %, loss {:.2f}", 100 * verdict.confidence, verdict.loss)},
                        {fmt::format("#{} {}", of.key.index, file_of(of)), drawing::kFaint}};
  append_csv(kept.row, place_of(of));
  fmt::format_to(std::back_inserter(kept.row), ",{},", of.key.index);
  append_csv(kept.row, label);
  kept.row += ',';
  append_csv(kept.row, predicted);
  fmt::format_to(std::back_inserter(kept.row), ",{:.6g},{:.6g}\r\n", verdict.confidence, verdict.loss);
  worst_.add(std::move(kept));
}

void Mistakes::join(JointSink& processes) {
  processes.gather(WireWriter().put(count_), [this](WireReader& other) { count_ += other.get<double>(); });
  worst_.join(processes);
}

void Mistakes::clear() {
  count_ = 0;
  worst_.clear();
}

std::string Mistakes::csv() const { return "path,index,label,predicted,confidence,loss\r\n" + worst_.rows(); }

drawing::Picture Mistakes::sheet() const {
  drawing::Sheet sheet = worst_.sheet();
  sheet.title =
      count_ == 0 ? "no mistakes" : fmt::format("{} of {} mistakes, highest loss first", worst_.samples().size(), count_);
  return drawing::draw(sheet);
}

std::string place_of(const Predictions::Sample& sample) {
  std::string place;
  sample.append_place(place);
  return place;
}

std::string file_of(const Predictions::Sample& sample) {
  const std::string& path = sample.member.empty() ? sample.url : sample.member;
  return path.substr(path.rfind('/') + 1);  // none: rfind() + 1 is 0
}

drawing::KeptImage kept_image(const Predictions& share, std::size_t sample) {
  const ImageShape window = share.batch->window;
  std::vector<std::uint8_t> seen(window.bytes());
  share.copy_image(sample, seen.data());
  return drawing::kept({seen.data(), window});
}

}  // namespace millrace
