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

constexpr Colour kPaper = {255, 255, 255}, kText = {36, 41, 47}, kPale = {140, 146, 154}, kRed = {190, 40, 30};
constexpr Colour kFrame = {225, 228, 232};
constexpr int kBorder = 24, kSpace = 24, kDots = 2, kRow = kDots * kLineHeight, kCaptions = 4;
constexpr int kSmallestImage = 192, kLargestImage = 256, kCellWidth = 214;  // of 18 letters

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
  Mistake made{verdict, of.key.index, {}, file_of(of), {}, {}};
  of.append_place(made.place);
  const ImageShape window = share.batch->window;
  std::vector<std::uint8_t> seen(window.bytes());
  share.copy_image(sample, seen.data());
  made.shape = drawn_shape(window, kSmallestImage, kLargestImage);
  made.pixels = drawn({seen.data(), window}, made.shape);
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

Mistakes::Grid Mistakes::grid() const {
  Grid grid;
  grid.cell_width = kCellWidth;
  for (const Mistake& mistake : worst_) {
    grid.image_height = std::max(grid.image_height, mistake.shape.height);
    grid.cell_width = std::max(grid.cell_width, mistake.shape.width);
  }
  grid.cell_height = grid.image_height + kRow / 2 + kCaptions * kRow;
  grid.columns = std::max(1, static_cast<int>(std::ceil(std::sqrt(static_cast<double>(worst_.size())))));
  return grid;
}

void Mistakes::draw(Picture& picture, int top, int left, const Grid& grid, const Mistake& mistake,
                    const std::vector<std::string>& names) {
  picture.rectangle(top - 1, left - 1, mistake.shape.height + 2, mistake.shape.width + 2, kFrame);
  picture.image(top, left, {mistake.pixels.data(), mistake.shape});
  int line = top + grid.image_height + kRow / 2;
  const auto write = [&](const std::string& text, const Colour& colour) {
    picture.text(line, left, shortened(text, grid.cell_width, kDots), colour, kDots);
    line += kRow;
  };
  const Verdict& verdict = mistake.verdict;
  write(fmt::format("is {}", names[verdict.label]), kText);
  write(fmt::format("as {}", names[verdict.predicted]), kRed);
  write(fmt::format("{:.1f} % loss {:.2f}", 100 * verdict.confidence, verdict.loss), kText);
  write(fmt::format("#{} {}", mistake.index, mistake.file), kPale);
}

Picture Mistakes::sheet(const std::vector<std::string>& names) const {
  const Grid grid = this->grid();
  const int kept = static_cast<int>(worst_.size()), rows = (kept + grid.columns - 1) / grid.columns;
  const std::string title = count_ == 0 ? "no mistakes" : fmt::format("{} of {} mistakes, highest loss first", kept, count_);
  const int first = kBorder + kRow + kSpace / 2, right = kBorder + grid.columns * (grid.cell_width + kSpace) - kSpace;
  const int bottom = kept == 0 ? kBorder + kRow : first + rows * (grid.cell_height + kSpace) - kSpace;
  Picture picture(bottom + kBorder, std::max(right, kBorder + text_width(title, kDots)) + kBorder, kPaper);
  picture.text(kBorder, kBorder, title, kText, kDots);
  for (int i = 0; i < kept; ++i) {
    draw(picture, first + i / grid.columns * (grid.cell_height + kSpace), kBorder + i % grid.columns * (grid.cell_width + kSpace),
         grid, worst_[static_cast<std::size_t>(i)], names);
  }
  return picture;
}

std::size_t Mistakes::memory_bound(std::size_t most) {
  constexpr std::size_t kPixel = 3, kCell = (kLargestImage + kSpace) * (kLargestImage + kCaptions * kRow + 2 * kSpace);
  return most * kPixel * (kLargestImage * kLargestImage + 2 * kCell);
}

}  // namespace millrace
