#include "excerpt.h"

#include <algorithm>
#include <cmath>

#include "millrace/error.h"
#include "millrace/util/centre.h"

namespace millrace {

namespace {

constexpr std::int64_t kLargest = 65'535;               // the largest that JPEG can express
constexpr std::int64_t kLargestUnseen = 1'000'000'000;  // for an image of which only the middle is rendered

Box box_of(const Region& region) {
  return {static_cast<float>(region.left), static_cast<float>(region.top), static_cast<float>(region.left + region.width),
          static_cast<float>(region.top + region.height)};
}

Excerpt resampled(const Region& region, int height, int width) {
  return {region, box_of(region), height, width, region.height != height || region.width != width};
}

Excerpt cut_out(const Region& region) { return {region, box_of(region), region.height, region.width, false}; }

[[noreturn]] void too_small(int height, int width, int wanted_height, int wanted_width) {
  fail(ErrorKind::content, "the image is {} x {}, too small to crop {} x {}", height, width, wanted_height, wanted_width);
}

// The length of the longer side when the shorter one becomes `short_side`.
int longer_side(std::int64_t short_side, int height, int width, std::int64_t most) {
  const std::int64_t longer = short_side * std::max(height, width) / std::min(height, width);
  if (longer <= most) return static_cast<int>(longer);
  fail(ErrorKind::content, "an image of {} x {} would get a side of {} pixels: at most {}", height, width, longer, most);
}

void check_range(const char* name, const Range& range, double most) {
  if (range.low > 0 && range.low <= range.high && range.high <= most) return;
  fail(ErrorKind::usage, "random_resized_crop.{}: expected [low, high] with 0 < low <= high <= {}, found [{}, {}]", name, most,
       range.low, range.high);
}

}  // namespace

Excerpt Excerpt::scaled(int scale) const {
  const auto s = static_cast<float>(scale);
  return {{region.top * scale, region.left * scale, region.height * scale, region.width * scale},
          {box.left * s, box.top * s, box.right * s, box.bottom * s},
          height * scale,
          width * scale,
          resampled};
}

ExcerptRule::Mode ExcerptRule::mode_of(const ExcerptParams& params) {
  const Range& area = params.random_resized_crop.area;
  const bool random = area.low != 0 || area.high != 0, exact = params.fit == "exact", middle = params.crop == "centre";
  if (int{random} + int{exact} + int{middle} > 1)
    fail(ErrorKind::usage, "random_resized_crop, fit = \"exact\" and crop = \"centre\" exclude each other: choose one");
  if ((random || exact || middle) && !params.size)
    fail(ErrorKind::usage, "size: required by {}",
         random  ? "random_resized_crop"
         : exact ? "fit = \"exact\""
                 : "crop = \"centre\"");
  if (params.short_side && params.size && !middle)
    fail(ErrorKind::usage, "short_side: with `size` it needs crop = \"centre\", which crops the resized image");
  if (random) return Mode::random_part;
  if (exact) return Mode::stretch;
  if (middle) return params.short_side ? Mode::short_side_middle : Mode::middle;
  return params.short_side ? Mode::short_side : params.size ? Mode::same_size : Mode::whole;
}

ExcerptRule::ExcerptRule(const ExcerptParams& params)
    : mode_(mode_of(params)), part_(params.random_resized_crop), filter_(resample_filter(params.filter)) {
  if (mode_ == Mode::random_part) {
    check_range("area", part_.area, 1);
    check_range("aspect", part_.aspect, 100);
  }
  if (mode_ == Mode::whole || mode_ == Mode::same_size || mode_ == Mode::middle) {
    if (params.filter != ExcerptParams().filter)
      fail(ErrorKind::usage, "filter: has no effect: only short_side, fit = \"exact\" and random_resized_crop resize");
  }
  short_side_ = params.short_side.value_or(0);
  if (!params.size) return;
  const Size& size = *params.size;
  if (size.height < 1 || size.width < 1 || size.height > kLargest || size.width > kLargest)
    fail(ErrorKind::usage, "size: expected [height, width] from 1 to {}, found [{}, {}]", kLargest, size.height, size.width);
  height_ = static_cast<int>(size.height);
  width_ = static_cast<int>(size.width);
  if (short_side_ > 0 && std::min(height_, width_) > short_side_)
    fail(ErrorKind::usage, "size: {} x {} cannot be cropped from images whose short side is {}", height_, width_, short_side_);
}

ExcerptRule::Draws ExcerptRule::draw(Draw& draw) const {
  Draws draws;
  if (mode_ != Mode::random_part) return draws;
  for (std::size_t i = 0; i < draws.area.size(); ++i) {
    draws.area[i] = draw.uniform();
    draws.aspect[i] = draw.uniform();
  }
  draws.row = draw.uniform();
  draws.column = draw.uniform();
  return draws;
}

// torchvision's RandomResizedCrop.get_params, attempt by attempt; its fallback is the centred part, at half of the margin rounded
// down.
Region ExcerptRule::random_part(int height, int width, const Draws& draws) const {
  const double area = static_cast<double>(height) * width;
  const double low = std::log(part_.aspect.low), high = std::log(part_.aspect.high);
  const auto round = [](double value) { return static_cast<int>(std::min(std::nearbyint(value), 1e6)); };
  for (std::size_t i = 0; i < draws.area.size(); ++i) {
    const double target = area * (part_.area.low + draws.area[i] * (part_.area.high - part_.area.low));
    const double aspect = std::exp(low + draws.aspect[i] * (high - low));
    const int w = round(std::sqrt(target * aspect)), h = round(std::sqrt(target / aspect));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    return {static_cast<int>(draws.row * (height - h + 1)), static_cast<int>(draws.column * (width - w + 1)), h, w};
  }
  const double aspect = static_cast<double>(width) / height;
  int w = width, h = height;
  if (aspect < part_.aspect.low) h = std::clamp(round(w / part_.aspect.low), 1, height);
  if (aspect > part_.aspect.high) w = std::clamp(round(h * part_.aspect.high), 1, width);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

Excerpt ExcerptRule::middle(int height, int width) const {
  if (height < height_ || width < width_) too_small(height, width, height_, width_);
  return cut_out({centred(height, height_), centred(width, width_), height_, width_});
}

// The middle of the resized image, computed without the rest of it.
Excerpt ExcerptRule::short_side_middle(int height, int width) const {
  const int longer = longer_side(short_side_, height, width, kLargestUnseen), shorter = static_cast<int>(short_side_);
  const int resized_height = height >= width ? longer : shorter, resized_width = height >= width ? shorter : longer;
  if (resized_height < height_ || resized_width < width_) too_small(resized_height, resized_width, height_, width_);
  const double scale_y = static_cast<double>(height) / resized_height, scale_x = static_cast<double>(width) / resized_width;
  const int top = centred(resized_height, height_), left = centred(resized_width, width_);
  Excerpt excerpt;
  excerpt.height = height_;
  excerpt.width = width_;
  excerpt.resampled = resized_height != height || resized_width != width;
  excerpt.box = {static_cast<float>(left * scale_x), static_cast<float>(top * scale_y),
                 static_cast<float>(std::min((left + width_) * scale_x, double(width))),
                 static_cast<float>(std::min((top + height_) * scale_y, double(height)))};
  // The filter reaches beyond the box.
  const double reach = !excerpt.resampled ? 0 : filter_ == ResampleFilter::bicubic ? 2 : 1;
  const double reach_y = reach * std::max(1.0, scale_y), reach_x = reach * std::max(1.0, scale_x);
  Region& region = excerpt.region;
  region.top = std::max(0, static_cast<int>(excerpt.box.top - reach_y) - (reach > 0));
  region.left = std::max(0, static_cast<int>(excerpt.box.left - reach_x) - (reach > 0));
  region.height = std::min(height, static_cast<int>(excerpt.box.bottom + reach_y) + (reach > 0)) - region.top;
  region.width = std::min(width, static_cast<int>(excerpt.box.right + reach_x) + (reach > 0)) - region.left;
  return excerpt;
}

Excerpt ExcerptRule::excerpt(int height, int width, const Draws& draws) const {
  const Region whole{0, 0, height, width};
  switch (mode_) {
    case Mode::whole: break;
    case Mode::same_size:
      if (height == height_ && width == width_) break;
      fail(ErrorKind::content,
           "the image is {} x {}, but `size` alone requires {} x {}: resize the file, or train with `fit = \"exact\"` as well",
           height, width, height_, width_);
    case Mode::stretch: return resampled(whole, height_, width_);
    case Mode::random_part: return resampled(random_part(height, width, draws), height_, width_);
    case Mode::middle: return middle(height, width);
    case Mode::short_side_middle: return short_side_middle(height, width);
    case Mode::short_side: {
      const int s = static_cast<int>(short_side_), l = longer_side(short_side_, height, width, kLargest);
      return height >= width ? resampled(whole, l, s) : resampled(whole, s, l);
    }
  }
  return cut_out(whole);
}

}  // namespace millrace
