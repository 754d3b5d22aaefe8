#include "picture_frame.h"

#include <algorithm>
#include <cmath>

#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/util/affine.h"

namespace millrace {

namespace {

// Consecutive rows or columns of the network's input.
struct Part {
  int begin = 0, end = 0;
};

// The part of `extent` pixels that shows one of `size` pixels of the picture, by place = scale * pixel + origin.
Part shown_part(double scale, double origin, int size, int extent) {
  constexpr double kRounding = 1e-6;
  const double one = (-0.5 - origin) / scale, other = (size - 0.5 - origin) / scale;
  const int begin = std::clamp(static_cast<int>(std::ceil(std::min(one, other) - kRounding)), 0, extent - 1);
  return {begin, std::clamp(static_cast<int>(std::floor(std::max(one, other) + kRounding)) + 1, begin + 1, extent)};
}

// Extends the image's edge pixels into the margin, so that no pixel of the picture is mixed with it.
void cover_margin(std::vector<std::uint8_t>& pixels, ImageShape window, const PictureFrame& frame) {
  const AffineMap& map = frame.from_input;
  if (map.xy != 0 || map.yx != 0) return;
  const Part rows = shown_part(map.yy, map.y0, frame.height, window.height);
  const Part columns = shown_part(map.xx, map.x0, frame.width, window.width);
  const auto at = [&](int row, int column) { return pixels.data() + (row * window.width + column) * window.channels; };
  for (int row = 0; row < window.height; ++row) {
    for (int column = 0; column < window.width; ++column) {
      const int from_row = std::clamp(row, rows.begin, rows.end - 1);
      const int from_column = std::clamp(column, columns.begin, columns.end - 1);
      if (from_row != row || from_column != column) std::copy_n(at(from_row, from_column), window.channels, at(row, column));
    }
  }
}

}  // namespace

AffineMap PictureFrame::from_map(int map_height, int map_width, ImageShape window) const {
  const double x = double(window.width) / map_width, y = double(window.height) / map_height;
  return AffineMap::scale(x, y).then(AffineMap::translation((x - 1) / 2, (y - 1) / 2)).then(from_input);
}

PictureFrame frame_of(const StageSite& site, const std::string& size, const Predictions::Sample& sample) {
  if (size == "network") return {{}, site.window.height, site.window.width};
  if (sample.source.is_known()) return {sample.source.map, sample.source.height, sample.source.width};
  std::string place;
  sample.append_place(place);
  fail(ErrorKind::usage,
       "size = \"source\" needs the position of the pixels of '{}' in its file. A stage of [{}] does not report it: set size = "
       "\"network\"",
       place, site.graph);
}

void require_colours(const StageSite& site) {
  const int channels = site.network->input.channels;
  if (channels == 1 || channels == 3) return;
  fail(ErrorKind::usage, "colours are laid over images of 1 or 3 channels, and the network's have {}", channels);
}

void SeenImage::draw(const Predictions& share, std::size_t sample, const PictureFrame& frame,
                     std::vector<std::uint8_t>& picture) {
  const ImageShape window = share.batch->window;
  seen_.resize(window.bytes());
  share.copy_image(sample, seen_.data());
  cover_margin(seen_, window, frame);
  const std::size_t places = frame.places();
  picture.resize(places * static_cast<std::size_t>(std::max(window.channels, 3)));
  constexpr std::uint8_t kFill[4] = {0, 0, 0, 0};
  warp_affine(frame.from_input.inverse(), {seen_.data(), window}, Interpolation::bilinear, Border::constant, kFill,
              {picture.data(), {frame.height, frame.width, window.channels}});
  if (window.channels == 3) return;
  for (std::size_t place = places; place-- > 0;) {  // from one channel, in place
    const std::uint8_t grey = picture[place];
    std::fill_n(picture.begin() + static_cast<std::ptrdiff_t>(3 * place), 3, grey);
  }
}

}  // namespace millrace
