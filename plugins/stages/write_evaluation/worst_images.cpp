#include "worst_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "millrace/loss.h"
#include "millrace/util/output_file.h"

namespace millrace {
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
  Entry entry{verdict, of.key.index, {}, {}, {}, {}};
  of.append_place(entry.place);
  const std::string& path = of.member.empty() ? of.url : of.member;
  entry.file = path.substr(path.rfind('/') + 1);  // none: rfind() + 1 is 0
  const ImageShape window = share.batch->window;
  std::vector<std::uint8_t> seen(window.bytes());
  share.copy_image(sample, seen.data());
  entry.panels.push_back(drawing::kept({seen.data(), window}));
  entry.panels.push_back(coloured(maps.labels, maps.shape));
  entry.panels.push_back(coloured(maps.predicted, maps.shape));
  std::set<std::uint8_t> classes(maps.labels.begin(), maps.labels.end());
  classes.insert(maps.predicted.begin(), maps.predicted.end());
  entry.classes.assign(classes.begin(), classes.end());
  return entry;
}

drawing::KeptImage WorstImages::coloured(std::span<const std::uint8_t> classes, ImageShape shape) const {
  std::vector<std::uint8_t> pixels;
  pixels.reserve(3 * classes.size());
  for (const std::size_t of : classes) {
    for (std::size_t c = 0; c < 3; ++c) pixels.push_back(colours_[3 * of + c]);
  }
  shape.channels = 3;
  return drawing::kept({pixels.data(), shape});
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

drawing::Picture WorstImages::sheet(const std::vector<std::string>& names) const {
  drawing::Sheet sheet;
  sheet.title = worst_.empty()
                    ? "no image with labels"
                    : fmt::format("{} of {} images, highest loss first: image, label, prediction", worst_.size(), count_);
  std::set<std::uint8_t> classes;
  for (const Entry& entry : worst_) {
    const double right = quotient(entry.verdict.right, entry.verdict.pixels);
    drawing::SheetCell cell;
    cell.images = entry.panels;
    cell.captions = {{fmt::format("{:.1f} % right, loss {:.2f}", 100 * right, entry.verdict.mean_loss())},
                     {fmt::format("#{} {}", entry.index, entry.file), drawing::kFaint}};
    sheet.cells.push_back(std::move(cell));
    classes.insert(entry.classes.begin(), entry.classes.end());
  }
  for (const std::size_t of : classes) {
    sheet.legend.push_back(
        {of < names.size() ? names[of] : "no class", {colours_[3 * of], colours_[3 * of + 1], colours_[3 * of + 2]}});
  }
  return drawing::draw(sheet);
}

}  // namespace millrace
