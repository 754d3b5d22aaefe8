#include "shown_samples.h"

#include <fmt/format.h>

#include <utility>

#include "millrace/loss.h"

namespace millrace {

void ShownSamples::add(const Verdict& verdict, const Predictions& share, std::size_t sample,
                       const std::vector<std::string>& names) {
  drawing::KeptSample kept{.position = share.samples[sample].key.position, .cell = {}};
  kept.cell.images.push_back(drawing::kept_image(share, sample));
  const bool is_right = verdict.predicted == verdict.label;
  kept.cell.captions = {{names[verdict.predicted], is_right ? drawing::kInk : drawing::kRed},
                        {is_right ? fmt::format("{:.1f} %", 100 * verdict.confidence)
                                  : fmt::format("{:.1f} %, is {}", 100 * verdict.confidence, names[verdict.label]),
                         drawing::kFaint}};
  shown_.add(std::move(kept));
}

void ShownSamples::add(const PixelVerdict& verdict, const WorstImages::Maps& maps, const Predictions& share, std::size_t sample) {
  const ImageShape window = share.batch->window;
  std::vector<std::uint8_t> seen(window.bytes());
  share.copy_image(sample, seen.data());
  drawing::KeptSample kept{.position = share.samples[sample].key.position, .cell = {}, .row = {}, .classes = classes_in(maps)};
  std::erase(kept.classes, kUnknownClass);  // no overlay there
  kept.cell.images = {drawing::kept({seen.data(), window}), overlay(seen, window, maps.labels, maps.shape),
                      overlay(seen, window, maps.predicted, maps.shape)};
  kept.cell.captions = {{fmt::format("{:.1f} % right", 100 * quotient(verdict.right, verdict.pixels))}};
  shown_.add(std::move(kept));
}

// Half transparent. A map whose size differs from the image's is drawn alone.
drawing::KeptImage ShownSamples::overlay(std::vector<std::uint8_t> image, ImageShape shape, std::span<const std::uint8_t> classes,
                                         ImageShape map) const {
  const bool lies_over = shape.height == map.height && shape.width == map.width;
  const auto channels = static_cast<std::size_t>(shape.channels);
  std::vector<std::uint8_t> mixed;
  mixed.reserve(3 * classes.size());
  for (std::size_t place = 0; place < classes.size(); ++place) {
    const bool is_known = classes[place] != kUnknownClass;
    for (std::size_t c = 0; c < 3; ++c) {
      const int colour = colours_[3 * std::size_t{classes[place]} + c];
      const int pixel = lies_over ? image[place * channels + (channels == 3 ? c : 0)] : colour;
      mixed.push_back(static_cast<std::uint8_t>(is_known ? (pixel + colour) / 2 : pixel));
    }
  }
  map.channels = 3;
  return drawing::kept({mixed.data(), map});
}

drawing::Picture ShownSamples::sheet(const std::string& heading, const std::vector<std::string>& names) const {
  drawing::Sheet sheet = shown_.sheet();
  sheet.title = fmt::format("{} {}", sheet.cells.size(), heading);
  sheet.legend = legend_of(shown_, names, colours_);  // empty for images with one class
  const bool is_map = !sheet.cells.empty() && sheet.cells.front().images.size() > 1;
  sheet.subtitle = is_map ? "image, label, prediction" : "what each was predicted as; mistakes are red";
  return drawing::draw(sheet);
}

}  // namespace millrace
