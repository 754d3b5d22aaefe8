#include "shown_samples.h"

#include <fmt/format.h>

#include <utility>

#include "millrace/loss.h"

namespace millrace {
namespace {

std::vector<std::uint8_t> image_of(const Predictions& share, std::size_t sample) {
  std::vector<std::uint8_t> seen(share.batch->window.bytes());
  share.copy_image(sample, seen.data());
  return seen;
}

}  // namespace

void ShownSamples::add(const Verdict& verdict, const Predictions& share, std::size_t sample,
                       const std::vector<std::string>& names) {
  const std::vector<std::uint8_t> seen = image_of(share, sample);
  drawing::SheetCell cell;
  cell.images.push_back(drawing::kept({seen.data(), share.batch->window}));
  const bool is_right = verdict.predicted == verdict.label;
  cell.captions = {{names[verdict.predicted], is_right ? drawing::kInk : drawing::kRed},
                   {is_right ? fmt::format("{:.1f} %", 100 * verdict.confidence)
                             : fmt::format("{:.1f} %, is {}", 100 * verdict.confidence, names[verdict.label]),
                    drawing::kFaint}};
  sheet_.cells.push_back(std::move(cell));
}

void ShownSamples::add(const PixelVerdict& verdict, const WorstImages::Maps& maps, const Predictions& share, std::size_t sample) {
  const std::vector<std::uint8_t> seen = image_of(share, sample);
  const ImageShape window = share.batch->window;
  drawing::SheetCell cell;
  cell.images = {drawing::kept({seen.data(), window}), overlay(seen, window, maps.labels, maps.shape),
                 overlay(seen, window, maps.predicted, maps.shape)};
  cell.captions = {{fmt::format("{:.1f} % right", 100 * quotient(verdict.right, verdict.pixels))}};
  sheet_.cells.push_back(std::move(cell));
}

// Half transparent. Where the map has another size than the image, it stands alone.
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

drawing::Picture ShownSamples::sheet(const std::string& graph, const std::vector<std::string>& names) const {
  drawing::Sheet sheet = sheet_;
  sheet.title = fmt::format("{} of {} images of {}", sheet.cells.size(), passed_, graph);
  const bool is_map = !sheet.cells.empty() && sheet.cells.front().images.size() > 1;
  sheet.subtitle = is_map ? "image, label, prediction" : "what each was predicted as; mistakes are red";
  for (std::size_t c = 0; is_map && c < names.size(); ++c) {
    sheet.legend.push_back({names[c], {colours_[3 * c], colours_[3 * c + 1], colours_[3 * c + 2]}});
  }
  return drawing::draw(sheet);
}

}  // namespace millrace
