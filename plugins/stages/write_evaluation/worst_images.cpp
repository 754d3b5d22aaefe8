#include "worst_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "millrace/loss.h"
#include "millrace/util/output_file.h"

namespace millrace {
namespace {

constexpr Colour kSheet = {255, 255, 255}, kInkOfSheet = {36, 41, 47}, kFaintInk = {140, 146, 154};
constexpr int kEdge = 24, kBetween = 6, kApart = 28, kTextSize = 2, kTextRow = kTextSize * kLineHeight;
constexpr int kSmallestPanel = 96, kLargestPanel = 192, kTextRows = 2;

}  // namespace

void WorstImages::add(const PixelVerdict& verdict, const Maps& maps, const Predictions& share, std::size_t sample) {
  if (verdict.pixels == 0) return;
  ++count_;
  const auto behind = std::upper_bound(worst_.begin(), worst_.end(), verdict.mean_loss(),
                                       [](double loss, const Entry& other) { return loss > other.verdict.mean_loss(); });
  const std::ptrdiff_t place = behind - worst_.begin();
  if (place == static_cast<std::ptrdiff_t>(most_)) return;
  if (worst_.size() == most_) worst_.pop_back();
  worst_.insert(worst_.begin() + place, made(verdict, maps, share, sample));
}

WorstImages::Entry WorstImages::made(const PixelVerdict& verdict, const Maps& maps, const Predictions& share,
                                     std::size_t sample) const {
  const Predictions::Sample& of = share.samples[sample];
  Entry entry{verdict, of.key.index, {}, {}, {}};
  of.append_place(entry.place);
  const std::string& path = of.member.empty() ? of.url : of.member;
  entry.file = path.substr(path.rfind('/') + 1);  // none: rfind() + 1 is 0
  const ImageShape window = share.batch->window, panel = drawn_shape(window, kSmallestPanel, kLargestPanel);
  std::vector<std::uint8_t> seen(window.bytes());
  share.copy_image(sample, seen.data());
  entry.panels.push_back({panel, drawn({seen.data(), window}, panel)});
  entry.panels.push_back(coloured(maps.labels, maps.shape));
  entry.panels.push_back(coloured(maps.predicted, maps.shape));
  return entry;
}

WorstImages::Panel WorstImages::coloured(std::span<const std::uint8_t> classes, ImageShape shape) const {
  std::vector<std::uint8_t> pixels;
  pixels.reserve(3 * classes.size());
  for (const std::size_t of : classes) {
    for (std::size_t c = 0; c < 3; ++c) pixels.push_back(colours_[3 * of + c]);
  }
  shape.channels = 3;
  const ImageShape panel = drawn_shape(shape, kSmallestPanel, kLargestPanel);
  return {panel, drawn({pixels.data(), shape}, panel)};
}

void WorstImages::clear() {
  count_ = 0;
  worst_.clear();
}

std::string WorstImages::csv() const {
  std::string text = "path,index,pixels,accuracy,loss\r\n";
  for (const Entry& entry : worst_) {
    append_csv(text, entry.place);
    fmt::format_to(std::back_inserter(text), ",{},{},{},{}\r\n", entry.index, entry.verdict.pixels,
                   quotient(entry.verdict.right, entry.verdict.pixels), entry.verdict.mean_loss());
  }
  return text;
}

WorstImages::Grid WorstImages::grid() const {
  Grid grid;
  for (const Entry& entry : worst_) {
    for (const Panel& panel : entry.panels) {
      grid.panel_height = std::max(grid.panel_height, panel.shape.height);
      grid.panel_width = std::max(grid.panel_width, panel.shape.width);
    }
  }
  constexpr int kCount = static_cast<int>(kPanels);
  grid.cell_width = kCount * (grid.panel_width + kBetween) - kBetween;
  grid.cell_height = grid.panel_height + kTextRow / 2 + kTextRows * kTextRow;
  const double ratio = grid.cell_width > 0 ? static_cast<double>(grid.cell_height) / grid.cell_width : 1;
  grid.columns = std::max(1, static_cast<int>(std::lround(std::sqrt(ratio * static_cast<double>(worst_.size())))));
  return grid;
}

void WorstImages::draw(Picture& picture, int top, int left, const Grid& grid, const Entry& entry) {
  for (std::size_t p = 0; p < entry.panels.size(); ++p) {
    const Panel& panel = entry.panels[p];
    picture.image(top, left + static_cast<int>(p) * (grid.panel_width + kBetween), {panel.pixels.data(), panel.shape});
  }
  int line = top + grid.panel_height + kTextRow / 2;
  const auto write = [&](const std::string& text, const Colour& colour) {
    picture.text(line, left, shortened(text, grid.cell_width, kTextSize), colour, kTextSize);
    line += kTextRow;
  };
  const double right = quotient(entry.verdict.right, entry.verdict.pixels);
  write(fmt::format("{:.1f} % right, loss {:.2f}", 100 * right, entry.verdict.mean_loss()), kInkOfSheet);
  write(fmt::format("#{} {}", entry.index, entry.file), kFaintInk);
}

Picture WorstImages::sheet() const {
  const Grid grid = this->grid();
  const int kept = static_cast<int>(worst_.size()), rows = (kept + grid.columns - 1) / grid.columns;
  const std::string title = kept == 0
                                ? "no image with labels"
                                : fmt::format("{} of {} images, highest loss first: image, label, prediction", kept, count_);
  const int first = kEdge + kTextRow + kApart / 2;
  const int bottom = kept == 0 ? kEdge + kTextRow : first + rows * (grid.cell_height + kApart) - kApart;
  const int right = kEdge + grid.columns * (grid.cell_width + kApart) - kApart;
  Picture picture(bottom + kEdge, std::max(right, kEdge + text_width(title, kTextSize)) + kEdge, kSheet);
  picture.text(kEdge, kEdge, title, kInkOfSheet, kTextSize);
  for (int i = 0; i < kept; ++i) {
    draw(picture, first + i / grid.columns * (grid.cell_height + kApart), kEdge + i % grid.columns * (grid.cell_width + kApart),
         grid, worst_[static_cast<std::size_t>(i)]);
  }
  return picture;
}

std::size_t WorstImages::memory_bound(std::size_t most) {
  constexpr std::size_t kPixel = 3, kPanel = kLargestPanel * kLargestPanel;
  constexpr std::size_t kCell = kPanels * (kLargestPanel + kApart) * (kLargestPanel + (kTextRows + 1) * kTextRow + 2 * kApart);
  return most * kPixel * (kPanels * kPanel + 2 * kCell);
}

}  // namespace millrace
