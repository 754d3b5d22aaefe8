// LabelMe (github.com/wkentaro/labelme): a JSON file for each image. A circle has a centre and a point on its edge.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "json_document.h"
#include "millrace/annotation.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/text.h"
#include "outlines.h"

namespace millrace {

namespace {

using Point = std::array<double, 2>;

std::vector<Point> points_of(const Json& shape) {
  std::vector<Point> points;
  for (const Json& point : member(shape, "points")) {
    const std::vector<double> values = numbers(point, fmt::format("points[{}]", points.size()));
    if (values.size() != 2) fail(ErrorKind::data, "points[{}] has {} coordinates", points.size(), values.size());
    points.push_back({values[0], values[1]});
  }
  return points;
}

class LabelMe : public AnnotationFormat {
 public:
  bool recognises(std::string_view name, std::string_view begin) const override {
    return lower_case(name).ends_with(".json") && trimmed(begin).starts_with('{') && begin.find("\"shapes\"") != begin.npos;
  }

  void read(AnnotationFiles& files, AnnotationSink& sink) const override {
    for (std::size_t file = 0; file < files.size(); ++file) read_image(files, file, sink);
  }

 private:
  struct Placed {
    AnnotatedShape shape;
    std::string place;
  };

  static void read_image(AnnotationFiles& files, std::size_t file, AnnotationSink& sink) {
    const std::string place = files.place(file), &name = files.name(file);
    std::vector<Placed> shapes;
    const Json document = read_json(files.text(file), place, [&](const JsonElement& element) {
      if (element.member != "shapes") return;
      Placed placed{{}, element.place(place)};
      if (read_shape(element.value, placed.shape))
        shapes.push_back(std::move(placed));
      else
        sink.left_out("point or line, which has no area", "points and lines, which have no area", place);
    });
    std::uint32_t image = 0;
    try {
      const std::string stem = name.substr(0, name.rfind('.'));
      image = sink.image({.name = text_of(document, "imagePath"),
                          .other_name = stem,
                          .width = whole_number(document, "imageWidth", 0),
                          .height = whole_number(document, "imageHeight", 0),
                          .place = place});
    } catch (Error& error) {
      throw error.in(place);
    }
    if (const auto flags = document.find("flags"); flags != document.end() && flags->is_object()) {
      for (const auto& [flag, value] : flags->items()) {
        if (value.is_boolean() && value.get<bool>())
          shapes.push_back({{.kind = AnnotatedShape::Kind::image, .label = flag}, place});
      }
    }
    for (const Placed& placed : shapes) {
      try {
        sink.shape(image, placed.shape);
      } catch (Error& error) {
        throw error.in(placed.place);
      }
    }
  }

  // False: a shape without area.
  static bool read_shape(const Json& from, AnnotatedShape& shape) {
    shape.label = text_of(from, "label");
    const auto type = from.find("shape_type");
    const std::string kind = type == from.end() || type->is_null() ? "polygon" : text_of(from, "shape_type");
    if (kind == "point" || kind == "points" || kind == "line" || kind == "linestrip") return false;
    const std::vector<Point> points = points_of(from);
    if (kind == "polygon") {
      shape.kind = AnnotatedShape::Kind::polygon;
      shape.polygons.emplace_back();
      for (const auto& [x, y] : points) shape.polygons.back().insert(shape.polygons.back().end(), {x, y});
      return true;
    }
    if (kind != "rectangle" && kind != "circle")
      fail(ErrorKind::data, "shape_type '{}' is not read; polygons, rectangles and circles are", shown(kind, 40));
    if (points.size() != 2) fail(ErrorKind::data, "a {} has {} points instead of 2", kind, points.size());
    const auto [x0, y0] = points[0];
    const auto [x1, y1] = points[1];
    if (kind == "rectangle") {
      shape.box = {std::min(x0, x1), std::min(y0, y1), std::max(x0, x1), std::max(y0, y1)};
      return true;
    }
    const double radius = std::hypot(x1 - x0, y1 - y0);
    shape.kind = AnnotatedShape::Kind::polygon;
    shape.polygons.push_back(ellipse(x0, y0, radius, radius));
    return true;
  }
};

MILLRACE_PART {
  registry.add(AnnotationType{{"labelme", "LabelMe's JSON: polygons, rectangles, circles, flags"}, std::make_shared<LabelMe>()});
}

}  // namespace
}  // namespace millrace
