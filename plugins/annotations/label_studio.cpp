// Label Studio's JSON (labelstud.io, "Label Studio JSON format"): a task for each image, whose first annotation that was not
// cancelled counts. Coordinates are percent. A box turns about its upper left corner.
#include <fmt/format.h>

#include "json_document.h"
#include "millrace/annotation.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/files.h"
#include "millrace/util/paths.h"
#include "millrace/util/text.h"
#include "outlines.h"

namespace millrace {

namespace {

// The path in "/data/local-files/?d=images/a%20b.jpg" and in other URLs.
std::string path_in(std::string url) {
  constexpr std::string_view kLocal = "?d=";
  if (const std::size_t at = url.find(kLocal); at != url.npos) url.erase(0, at + kLocal.size());
  return percent_decode(url).value_or(url);
}

// "photo.jpg" of "0a1b2c3d-photo.jpg", as an uploaded file is called; "" for other names.
std::string without_prefix(const std::string& path) {
  constexpr std::size_t kDigits = 8;
  const std::string name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  const bool has_prefix = name.find_first_not_of("0123456789abcdef") == kDigits && name[kDigits] == '-';
  return has_prefix ? name.substr(kDigits + 1) : "";
}

std::string image_of(const Json& task) {
  const Json& data = member(task, "data");
  std::string found;
  if (data.is_object()) {
    for (const auto& [key, value] : data.items()) {
      const bool is_image = value.is_string() && (key == "image" || usual_images().match(value.get_ref<const std::string&>()));
      if (is_image && (found.empty() || key == "image")) found = value.get<std::string>();
    }
  }
  if (found.empty()) fail(ErrorKind::data, "data names no image");
  return path_in(found);
}

class LabelStudio : public AnnotationFormat {
 public:
  bool recognises(std::string_view name, std::string_view begin) const override {
    const auto has = [begin](std::string_view word) { return begin.find(word) != begin.npos; };
    return lower_case(name).ends_with(".json") && trimmed(begin).starts_with('[') && (has("\"annotations\"") || has("\"data\""));
  }

  void read(AnnotationFiles& files, AnnotationSink& sink) const override {
    for (std::size_t file = 0; file < files.size(); ++file) {
      const std::string place = files.place(file);
      read_json(files.text(file), place, [&](const JsonElement& task) { read_task(task, place, sink); });
    }
  }

 private:
  static void read_task(const JsonElement& element, const std::string& file, AnnotationSink& sink) {
    const Json *chosen = nullptr, &annotations = member(element.value, "annotations");
    for (const Json& annotation : annotations) {
      if (annotation.value("was_cancelled", false)) continue;
      if (chosen != nullptr) sink.left_out("further annotation of a task", "further annotations of tasks", element.place(file));
      if (chosen == nullptr) chosen = &annotation;
    }
    if (chosen == nullptr) return;
    const Json& results = member(*chosen, "result");
    const auto sized = std::ranges::find_if(results, [](const Json& result) { return result.contains("original_width"); });
    const std::string path = image_of(element.value);
    const int width = sized == results.end() ? 0 : whole_number(*sized, "original_width", 0);
    const int height = sized == results.end() ? 0 : whole_number(*sized, "original_height", 0);
    const std::uint32_t image = sink.image(
        {.name = path, .other_name = without_prefix(path), .width = width, .height = height, .place = element.place(file)});
    for (std::size_t i = 0; i < results.size(); ++i) {
      try {
        read_result(results[i], image, width, height, element.place(file), sink);
      } catch (Error& error) {
        throw error.in(fmt::format("result[{}]", i));
      }
    }
  }

  static void read_result(const Json& result, std::uint32_t image, int width, int height, const std::string& place,
                          AnnotationSink& sink) {
    const std::string type = text_of(result, "type");
    const Json& value = member(result, "value");
    if (type == "keypointlabels" || type == "vectorlabels" || type == "keypoint")
      return sink.left_out("point or line, which has no area", "points and lines, which have no area", place);
    if (type == "brushlabels" || type == "bitmasklabels")
      fail(ErrorKind::data, "brushes are not read: export this project as COCO, or its masks as PNG");
    const bool is_shape = type == "rectanglelabels" || type == "polygonlabels" || type == "ellipselabels";
    if (!is_shape && type != "choices") return;  // text, ratings, regions whose labels follow
    AnnotatedShape shape;
    const Json& labels = member(value, type.c_str());
    if (type == "choices")
      shape.kind = AnnotatedShape::Kind::image;
    else if (width < 1 || height < 1)
      fail(ErrorKind::data, "original_width and original_height are missing");
    else
      outline(type, value, width, height, shape);
    for (const Json& label : labels) {
      shape.label = label.get<std::string>();
      sink.shape(image, shape);
    }
  }

  static void outline(const std::string& type, const Json& value, int width, int height, AnnotatedShape& shape) {
    const double x_scale = width / 100., y_scale = height / 100.;
    shape.kind = AnnotatedShape::Kind::polygon;
    if (type == "polygonlabels") {
      shape.polygons.emplace_back();
      for (const Json& point : member(value, "points")) {
        const std::vector<double> xy = numbers(point, "points");
        if (xy.size() != 2) fail(ErrorKind::data, "a point has {} coordinates", xy.size());
        shape.polygons.back().insert(shape.polygons.back().end(), {xy[0] * x_scale, xy[1] * y_scale});
      }
      return;
    }
    const double x = number(value, "x") * x_scale, y = number(value, "y") * y_scale;
    const double turn = value.contains("rotation") && !value["rotation"].is_null() ? number(value, "rotation") : 0;
    if (type == "ellipselabels") {
      shape.polygons.push_back(ellipse(x, y, number(value, "radiusX") * x_scale, number(value, "radiusY") * y_scale, turn));
      return;
    }
    const double wide = number(value, "width") * x_scale, high = number(value, "height") * y_scale;
    if (turn != 0) {
      shape.polygons.push_back(turned_box(x, y, wide, high, turn, x, y));
      return;
    }
    shape.kind = AnnotatedShape::Kind::box;
    shape.box = {x, y, x + wide, y + high};
  }
};

MILLRACE_PART {
  registry.add(AnnotationType{{"label_studio", "Label Studio's JSON: rectangles, polygons, ellipses, choices"},
                              std::make_shared<LabelStudio>()});
}

}  // namespace
}  // namespace millrace
