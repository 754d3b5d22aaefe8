#include "picture_frame.h"

#include <algorithm>

#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/util/affine.h"

namespace millrace {

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
       "size = \"source\" needs to know where the pixels of '{}' lie in its file. A stage of [{}] does not tell: set size = "
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
