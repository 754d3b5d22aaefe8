#include "mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "millrace/util/output_file.h"

namespace millrace {
namespace {

std::string file_of(const Predictions::Sample& sample) {
  const std::string& path = sample.member.empty() ? sample.url : sample.member;
  return path.substr(path.rfind('/') + 1);  // none: rfind() + 1 is 0
}

}  // namespace

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

void Mistakes::add(const Verdict& verdict, const Predictions& share, std::size_t sample) {
  ++count_;
  const auto behind = std::upper_bound(worst_.begin(), worst_.end(), verdict.loss,
                                       [](double loss, const Mistake& other) { return loss > other.verdict.loss; });
  const std::ptrdiff_t place = behind - worst_.begin();
  if (place == static_cast<std::ptrdiff_t>(most_)) return;
  if (worst_.size() == most_) worst_.pop_back();
  worst_.insert(worst_.begin() + place, made(verdict, share, sample));
}

Mistakes::Mistake Mistakes::made(const Verdict& verdict, const Predictions& share, std::size_t sample) {
  const Predictions::Sample& of = share.samples[sample];
  Mistake made{verdict, of.key.index, {}, file_of(of), {}};
  of.append_place(made.place);
  const ImageShape window = share.batch->window;
  std::vector<std::uint8_t> seen(window.bytes());
  share.copy_image(sample, seen.data());
  made.image = drawing::kept({seen.data(), window});
  return made;
}

void Mistakes::clear() {
  count_ = 0;
  worst_.clear();
}

std::string Mistakes::csv(const std::vector<std::string>& names) const {
  std::string text = "path,index,label,predicted,confidence,loss\r\n";
  for (const Mistake& mistake : worst_) {
    append_csv(text, mistake.place);
    fmt::format_to(std::back_inserter(text), ",{},", mistake.index);
    append_csv(text, names[mistake.verdict.label]);
    text += ',';
    append_csv(text, names[mistake.verdict.predicted]);
    fmt::format_to(std::back_inserter(text), ",{:.6g},{:.6g}\r\n", mistake.verdict.confidence, mistake.verdict.loss);
  }
  return text;
}

drawing::Picture Mistakes::sheet(const std::vector<std::string>& names) const {
  drawing::Sheet sheet;
  sheet.title = count_ == 0 ? "no mistakes" : fmt::format("{} of {} mistakes, highest loss first", worst_.size(), count_);
  for (const Mistake& mistake : worst_) {
    const Verdict& verdict = mistake.verdict;
    drawing::SheetCell cell;
    cell.images.push_back(mistake.image);
    cell.captions = {{fmt::format("is {}", names[verdict.label])},
                     {fmt::format("as {}", names[verdict.predicted]), drawing::kRed},
                     {fmt::format("{:.1f} %, loss {:.2f}", 100 * verdict.confidence, verdict.loss)},
                     {fmt::format("#{} {}", mistake.index, mistake.file), drawing::kFaint}};
    sheet.cells.push_back(std::move(cell));
  }
  return drawing::draw(sheet);
}

}  // namespace millrace
