#include "worst_images.h"

#include <fmt/format.h>

#include <iterator>
#include <set>
#include <utility>

#include "millrace/loss.h"
#include "millrace/util/output_file.h"
#include "mistakes.h"

namespace millrace {

PixelVerdict PixelJudge::judge(std::span<const float> outputs, std::span<const std::uint8_t> labels, std::span<double> matrix,
                               Calibration& calibration) {
  PixelVerdict sums;
  const std::size_t pixels = labels.size();
  predicted_.resize(pixels);
  of_pixel_.resize(classes_);
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t c = 0; c < classes_; ++c) of_pixel_[c] = outputs[c * pixels + i];
    const bool counts = labels[i] < classes_;
    const Verdict verdict = Verdict::of(of_pixel_, counts ? labels[i] : 0, probabilities_);
    predicted_[i] = static_cast<std::uint8_t>(verdict.predicted);
    if (!counts) continue;
    const bool right = verdict.predicted == verdict.label;
    matrix[verdict.label * classes_ + verdict.predicted] += 1;
    calibration.add(verdict.confidence, right);
    sums.pixels += 1;
    sums.right += right ? 1 : 0;
    sums.loss += verdict.loss;
  }
  return sums;
}

void WorstImages::add(const PixelVerdict& verdict, const Maps& maps, const Predictions& share, std::size_t sample) {
  if (verdict.pixels == 0) return;
  const Predictions::Sample& of = share.samples[sample];
  const double loss = verdict.mean_loss(), right = quotient(verdict.right, verdict.pixels);
  if (!worst_.counts(loss, of.key.position)) return;
  drawing::KeptSample kept{.loss = loss, .position = of.key.position, .cell = {}, .row = {}, .classes = classes_in(maps)};
  kept.cell.images = {drawing::kept_image(share, sample), coloured(maps.labels, maps.shape),
                      coloured(maps.predicted, maps.shape)};
  kept.cell.captions = {{fmt::format("{:.1f} % right, loss {:.2f}", 100 * right, loss)},
                        {fmt::format("#{} {}", of.key.index, drawing::file_of(of)), drawing::kFaint}};
  append_csv(kept.row, place_of(of));
  fmt::format_to(std::back_inserter(kept.row), ",{},{},{},{}\r\n", of.key.index, verdict.pixels, right, loss);
  worst_.add(std::move(kept));
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

std::string WorstImages::csv() const { return "path,index,pixels,accuracy,loss\r\n" + worst_.rows(); }

drawing::Picture WorstImages::sheet(const std::vector<std::string>& names) const {
  drawing::Sheet sheet = worst_.sheet();
  sheet.title = sheet.cells.empty() ? "no image with labels"
                                    : fmt::format("{} of {} images, highest loss first: image, label, prediction",
                                                  sheet.cells.size(), worst_.count());
  sheet.legend = legend_of(worst_, names, colours_);
  return drawing::draw(sheet);
}

std::vector<std::uint8_t> classes_in(const WorstImages::Maps& maps) {
  std::set<std::uint8_t> classes(maps.labels.begin(), maps.labels.end());
  classes.insert(maps.predicted.begin(), maps.predicted.end());
  return {classes.begin(), classes.end()};
}

std::vector<drawing::Caption> legend_of(const drawing::KeptSamples& shown, const std::vector<std::string>& names,
                                        const ClassColours& colours) {
  std::vector<drawing::Caption> legend;
  const std::vector<bool> occur = shown.classes();
  for (std::size_t of = 0; of < occur.size(); ++of) {
    if (!occur[of]) continue;
    legend.push_back({of < names.size() ? names[of] : "no class", {colours[3 * of], colours[3 * of + 1], colours[3 * of + 2]}});
  }
  return legend;
}

}  // namespace millrace
