#include "shape_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "label_map.h"
#include "millrace/error.h"
#include "millrace/params.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

constexpr int kMaxSide = 65'535;
constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;

void check_size(int width, int height) {
  const bool is_sound = width >= 0 && height >= 0 && width <= kMaxSide && height <= kMaxSide &&
                        std::int64_t{width} * height <= kMaxPixels && (width == 0) == (height == 0);
  if (!is_sound) {
    fail(ErrorKind::data, "{} x {} is not the size of an image; expected sides from 1 to {}, and at most {} pixels", width,
         height, kMaxSide, kMaxPixels);
  }
}

double checked(double coordinate, double scale) {
  const double pixels = coordinate * scale;
  if (std::abs(pixels) <= kMaxCoordinate) return pixels;  // false for NaN
  fail(ErrorKind::data, "{} is not a coordinate: expected at most {} pixels", coordinate, kMaxCoordinate);
}

struct Bounds {
  double left = kMaxCoordinate, top = kMaxCoordinate, right = -kMaxCoordinate, bottom = -kMaxCoordinate;

  void add(double x, double y) {
    left = std::min(left, x);
    right = std::max(right, x);
    top = std::min(top, y);
    bottom = std::max(bottom, y);
  }
};

}  // namespace

ShapeList::ShapeList(const ShapeRules& rules, const ImageNames& names,
                     std::function<std::optional<ImageSize>(std::uint32_t image)> size_of)
    : rules_(rules), names_(names), size_of_(std::move(size_of)), leaves_out_(rules.leave_out) {
  for (const std::string& name : rules.classes) add_class(name);
  announced_ = class_names_.size();
}

std::int32_t ShapeList::add_class(const std::string& name) {
  const auto [entry, is_new] = class_numbers_.try_emplace(name, static_cast<std::int32_t>(class_names_.size()));
  if (is_new) class_names_.push_back(name);
  return entry->second;
}

void ShapeList::classes(const std::vector<std::string>& names) {
  if (!rules_.classes.empty()) return;
  const bool are_first = announced_ == class_names_.size();
  for (const std::string& name : names) {
    if (!rules_.ignored.contains(name) && !leaves_out_(name)) add_class(name);
  }
  if (are_first) announced_ = class_names_.size();
}

void ShapeList::left_out(std::string_view one, std::string_view several, std::string_view example) {
  skipped_.add({std::string(one), std::string(several)}, example);
}

std::uint32_t ShapeList::image(const AnnotatedImage& image) {
  check_size(image.width, image.height);
  ImageNames::Found found = names_.find(image.name);
  if (!found.image && found.other.empty() && !image.other_name.empty()) found = names_.find(image.other_name);
  if (!found.other.empty()) {
    fail(ErrorKind::data, "'{}' may be '{}' or another image of this name: the annotations lack its folder",
         line_text(image.name), line_text(found.other));
  }
  if (!found.image) {
    missing_.push_back(fmt::format("{}: '{}'", image.place, line_text(image.name)));
    return kMissing;
  }
  const auto number = static_cast<std::uint32_t>(images_.size());
  const auto [known, is_new] = by_name_.try_emplace(*found.image, number);
  if (!is_new) {
    if (image.may_repeat) return known->second;
    fail(ErrorKind::data, "'{}' is annotated twice, in {} too", line_text(names_[*found.image]), places_[known->second]);
  }
  places_.push_back(image.place);
  add_image(*found.image, {image.width, image.height});
  return number;
}

void ShapeList::add_image(std::uint32_t name, const ImageSize& stated) {
  images_.push_back({name, stated});
  if (stated.width != 0 || !rules_.needs_sizes) return;
  const auto size = size_of_(name);
  if (!size) fail(ErrorKind::data, "the size of '{}' cannot be read: it is neither a JPEG nor a PNG", line_text(names_[name]));
  check_size(size->width, size->height);
  images_.back().size = *size;
}

void ShapeList::add_unlisted() {
  for (std::uint32_t name = 0; name < names_.size(); ++name) {
    if (by_name_.try_emplace(name, static_cast<std::uint32_t>(images_.size())).second) add_image(name, {});
  }
}

std::optional<std::int32_t> ShapeList::label_of(const AnnotatedShape& shape) {
  if (rules_.ignored.contains(shape.label)) return StoredShape::kIgnored;
  const auto known = class_numbers_.find(shape.label);
  if (known == class_numbers_.end()) {
    if (leaves_out_(shape.label)) return {};
    if (shape.is_ignored) return StoredShape::kIgnored;
    if (rules_.classes.empty()) return add_class(shape.label);
    if (!rules_.refuses_unknown) return {};
    const auto nearest = nearest_name(shape.label, rules_.classes);
    fail(ErrorKind::data,
         "class '{}' is not among `classes`{}; leave_out = [\"{}\"] leaves its shapes out, and \"*\" all such shapes",
         line_text(shape.label), nearest ? fmt::format(" (did you mean '{}'?)", line_text(*nearest)) : "",
         line_text(shape.label));
  }
  return shape.is_ignored ? StoredShape::kIgnored : known->second;
}

void ShapeList::check_mask(const AnnotatedShape& shape, const Image& image) const {
  std::uint64_t sum = 0;
  for (const std::uint32_t length : shape.runs) sum += length;
  const std::uint64_t pixels = static_cast<std::uint64_t>(image.size.width) * static_cast<std::uint64_t>(image.size.height);
  if (image.size.width != 0 && sum != pixels)
    fail(ErrorKind::data, "the runs of a mask cover {} pixels, and '{}' has {}", sum, line_text(names_[image.name]), pixels);
}

bool ShapeList::keep_polygons(const std::vector<std::vector<double>>& polygons, double x_scale, double y_scale,
                              const Image& image, StoredShape& stored) {
  constexpr std::size_t kTriangle = 6;
  Bounds all;
  bool has_area = false;
  for (const std::vector<double>& polygon : polygons) {
    if (polygon.size() % 2 != 0) fail(ErrorKind::data, "a polygon has {} coordinates, an odd number", polygon.size());
    Bounds bounds;
    for (std::size_t i = 0; i < polygon.size(); i += 2)
      bounds.add(checked(polygon[i], x_scale), checked(polygon[i + 1], y_scale));
    if (polygon.size() < kTriangle || bounds.left == bounds.right || bounds.top == bounds.bottom) continue;
    has_area = true;
    all.add(bounds.left, bounds.top);
    all.add(bounds.right, bounds.bottom);
    if (!rules_.keeps_outlines) continue;
    outlines_.push_back(static_cast<std::int32_t>(polygon.size()));
    for (std::size_t i = 0; i < polygon.size(); ++i)
      outlines_.push_back(grid_value(polygon[i] * (i % 2 == 0 ? x_scale : y_scale)));
  }
  const std::string& name = names_[image.name];
  if (!has_area) {
    skipped_.add({"shape without area", "shapes without area"}, name);
    return false;
  }
  const bool is_inside =
      image.size.width == 0 || (all.right > 0 && all.bottom > 0 && all.left < image.size.width && all.top < image.size.height);
  stored.box = {static_cast<float>(all.left), static_cast<float>(all.top), static_cast<float>(all.right),
                static_cast<float>(all.bottom)};
  if (!is_inside) skipped_.add({"shape outside its image", "shapes outside their images"}, name);
  return is_inside;
}

bool ShapeList::keep_mask(const AnnotatedShape& shape, const Image& image, StoredShape& stored) {
  check_mask(shape, image);
  Bounds bounds;
  bool has_area = false;
  const auto height = static_cast<std::uint64_t>(std::max(image.size.height, 1));
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < shape.runs.size(); at += shape.runs[i++]) {
    if (i % 2 == 0 || shape.runs[i] == 0) continue;
    has_area = true;
    const std::uint64_t last = at + shape.runs[i] - 1, column = at / height, last_column = last / height;
    const bool is_in_one = column == last_column;  // otherwise it reaches the upper and the lower edge
    bounds.add(static_cast<double>(column), is_in_one ? static_cast<double>(at % height) : 0);
    bounds.add(static_cast<double>(last_column + 1), static_cast<double>(is_in_one ? last % height + 1 : height));
  }
  if (!has_area) skipped_.add({"shape without area", "shapes without area"}, names_[image.name]);
  stored.box = {static_cast<float>(bounds.left), static_cast<float>(bounds.top), static_cast<float>(bounds.right),
                static_cast<float>(bounds.bottom)};
  if (has_area && rules_.keeps_outlines) outlines_.insert(outlines_.end(), shape.runs.begin(), shape.runs.end());
  return has_area;
}

bool ShapeList::keep_outline(const AnnotatedShape& shape, const Image& image, StoredShape& stored) {
  const bool scales = shape.is_relative && image.size.width != 0;
  const double x_scale = scales ? image.size.width : 1, y_scale = scales ? image.size.height : 1;
  switch (shape.kind) {
    case AnnotatedShape::Kind::image: return true;
    case AnnotatedShape::Kind::mask: return keep_mask(shape, image, stored);
    case AnnotatedShape::Kind::polygon: return keep_polygons(shape.polygons, x_scale, y_scale, image, stored);
    case AnnotatedShape::Kind::box: {
      const auto& [left, top, right, bottom] = shape.box;
      if (right < left || bottom < top)
        fail(ErrorKind::data, "a box from {}, {} to {}, {} has a negative side", left, top, right, bottom);
      return keep_polygons({{left, top, left, bottom, right, bottom, right, top}}, x_scale, y_scale, image, stored);
    }
  }
  return false;
}

void ShapeList::shape(std::uint32_t image, const AnnotatedShape& shape) {
  if (image == kMissing) return;
  const std::optional<std::int32_t> label = label_of(shape);
  if (!label) return;
  StoredShape stored{image, *label, shape.kind, outlines_.size(), 0, {}};
  const bool is_kept = keep_outline(shape, images_[image], stored);
  if (!is_kept) {
    outlines_.resize(stored.begin);
    return;
  }
  stored.end = outlines_.size();
  shapes_.push_back(stored);
}

void ShapeList::finish() {
  std::vector<std::int32_t> order(class_names_.size()), label(class_names_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin() + static_cast<std::ptrdiff_t>(announced_), order.end(), [&](std::int32_t a, std::int32_t b) {
    return class_names_[static_cast<std::size_t>(a)] < class_names_[static_cast<std::size_t>(b)];
  });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < order.size(); ++i) {
    label[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
    names.push_back(utf8_text(class_names_[static_cast<std::size_t>(order[i])]));
  }
  class_names_ = std::move(names);
  counts_.assign(class_names_.size(), 0);
  for (StoredShape& shape : shapes_) {
    if (shape.label == StoredShape::kIgnored) continue;
    shape.label = label[static_cast<std::size_t>(shape.label)];
    ++counts_[static_cast<std::size_t>(shape.label)];
  }
  std::ranges::stable_sort(shapes_, {}, &StoredShape::image);
  for (std::uint64_t begin = 0; begin < shapes_.size();) {
    std::uint64_t end = begin;
    while (end < shapes_.size() && shapes_[end].image == shapes_[begin].image) ++end;
    images_[shapes_[begin].image].begin = begin;
    images_[shapes_[begin].image].end = end;
    begin = end;
  }
  shapes_.shrink_to_fit();
  outlines_.shrink_to_fit();
  places_ = {};
  by_name_.clear();
}

std::size_t ShapeList::memory() const {
  return images_.capacity() * sizeof(Image) + shapes_.capacity() * sizeof(StoredShape) +
         outlines_.capacity() * sizeof(std::int32_t);
}

}  // namespace millrace
