// CVAT for images 1.1 (docs.cvat.ai, "CVAT XML format"). Shapes cover each other by their z_order.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "millrace/annotation.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/text.h"
#include "outlines.h"
#include "text_values.h"
#include "xml_document.h"

namespace millrace {

namespace {

class Cvat : public AnnotationFormat {
 public:
  bool recognises(std::string_view name, std::string_view begin) const override {
    return lower_case(name).ends_with(".xml") && begin.find("<annotations>") != begin.npos;
  }

  void read(AnnotationFiles& files, AnnotationSink& sink) const override {
    for (std::size_t file = 0; file < files.size(); ++file) {
      const std::string place = files.place(file);
      const XmlDocument document(files.text(file), place);
      if (const pugi::xml_node track = document.root().child("track"))
        fail(ErrorKind::data, "{}: tracks of a video are not read: export it as \"CVAT for images\"", document.place(track));
      sink.classes(labels(document.root()));
      for (const pugi::xml_node& image : document.root().children("image")) read_image(document, image, sink);
    }
  }

 private:
  static std::vector<std::string> labels(const pugi::xml_node& root) {
    std::vector<std::string> names;
    for (const pugi::xml_node& of : root.child("meta").children()) {  // a task, a project or a job
      for (const pugi::xml_node& label : of.child("labels").children("label")) {
        const std::string name = label.child("name").text().get();
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    }
    return names;
  }

  static void read_image(const XmlDocument& document, const pugi::xml_node& node, AnnotationSink& sink) {
    const auto in = [&](const pugi::xml_node& at, auto&& call) {
      try {
        return call();
      } catch (Error& error) {
        throw error.in(document.place(at));
      }
    };
    int width = 0, height = 0;
    const std::uint32_t image = in(node, [&] {
      width = whole_number(attribute_number(node, "width"));
      height = whole_number(attribute_number(node, "height"));
      return sink.image(
          {.name = node.attribute("name").value(), .width = width, .height = height, .place = document.place(node)});
    });
    std::vector<pugi::xml_node> shapes(node.begin(), node.end());
    std::ranges::stable_sort(shapes, {}, [](const pugi::xml_node& shape) { return shape.attribute("z_order").as_int(); });
    for (const pugi::xml_node& from : shapes) {
      in(from, [&] {
        AnnotatedShape shape;
        shape.label = from.attribute("label").value();
        const std::string_view kind = from.name();
        if (kind == "points" || kind == "polyline")
          sink.left_out("point or line, which has no area", "points and lines, which have no area", document.place(from));
        else if (kind == "skeleton" || kind == "cuboid")
          sink.left_out("skeleton or cuboid", "skeletons and cuboids", document.place(from));
        else if (from.type() == pugi::node_element) {
          read_shape(from, width, height, shape);
          sink.shape(image, shape);
        }
      });
    }
  }

  static void read_shape(const pugi::xml_node& from, int width, int height, AnnotatedShape& shape) {
    const std::string_view kind = from.name();
    const auto number = [&](const char* name) { return attribute_number(from, name); };
    const double turn = from.attribute("rotation") ? number("rotation") : 0;
    shape.kind = AnnotatedShape::Kind::polygon;
    if (kind == "tag") {
      shape.kind = AnnotatedShape::Kind::image;
    } else if (kind == "box") {
      const double left = number("xtl"), top = number("ytl"), right = number("xbr"), bottom = number("ybr");
      if (turn == 0) {
        shape.kind = AnnotatedShape::Kind::box;
        shape.box = {left, top, right, bottom};
      } else {
        shape.polygons.push_back(turned_box(left, top, right - left, bottom - top, turn, (left + right) / 2, (top + bottom) / 2));
      }
    } else if (kind == "polygon") {
      shape.polygons.push_back(listed_numbers(from.attribute("points").value(), ",;", "points"));
    } else if (kind == "ellipse") {
      shape.polygons.push_back(ellipse(number("cx"), number("cy"), number("rx"), number("ry"), turn));
    } else if (kind == "mask") {
      const ImagePart part{whole_number(number("left")), whole_number(number("top")), whole_number(number("width")),
                           whole_number(number("height"))};
      shape.kind = AnnotatedShape::Kind::mask;
      shape.runs = runs_by_column(listed_numbers(from.attribute("rle").value(), ",", "rle"), part, width, height);
    } else {
      fail(ErrorKind::data, "<{}> is not a shape that is read", shown(kind, 40));
    }
  }
};

MILLRACE_PART {
  registry.add(AnnotationType{{"cvat", "CVAT for images 1.1: boxes, polygons, ellipses, masks, tags"}, std::make_shared<Cvat>()});
}

}  // namespace
}  // namespace millrace
