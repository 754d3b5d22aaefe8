// Pascal VOC: an XML file for each image (VOC2012 development kit, "Bounding box annotation"). Boxes name their first and last
// pixels, counted from 1.
#include "millrace/annotation.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/text.h"
#include "text_values.h"
#include "xml_document.h"

namespace millrace {

namespace {

class PascalVoc : public AnnotationFormat {
 public:
  bool recognises(std::string_view name, std::string_view begin) const override {
    return lower_case(name).ends_with(".xml") && begin.find("<annotation>") != begin.npos;
  }

  void read(AnnotationFiles& files, AnnotationSink& sink) const override {
    for (std::size_t file = 0; file < files.size(); ++file) {
      const XmlDocument document(files.text(file), files.place(file));
      read_image(document, files.name(file), files.place(file), sink);
    }
  }

 private:
  static void read_image(const XmlDocument& document, const std::string& file, const std::string& place, AnnotationSink& sink) {
    const pugi::xml_node root = document.root();
    const auto in = [&](const pugi::xml_node& node, auto&& call) {
      try {
        return call();
      } catch (Error& error) {
        throw error.in(document.place(node));
      }
    };
    const std::uint32_t image = in(root, [&] {
      const std::string stem = file.substr(0, file.rfind('.'));
      const pugi::xml_node size = root.child("size");
      const std::string name = root.child("filename").text().get();
      return sink.image({.name = name.empty() ? stem : name,
                         .other_name = stem.substr(stem.rfind('/') + 1),  // npos + 1 is 0
                         .width = size ? whole_number(child_number(size, "width")) : 0,
                         .height = size ? whole_number(child_number(size, "height")) : 0,
                         .place = place});
    });
    for (const pugi::xml_node& object : root.children("object")) {
      in(object, [&] {
        AnnotatedShape shape;
        shape.label = trimmed(object.child("name").text().get());
        if (shape.label.empty()) fail(ErrorKind::data, "<object> has no <name>");
        shape.is_ignored = object.child("difficult").text().as_int() != 0;
        const pugi::xml_node box = object.child("bndbox");
        if (!box) fail(ErrorKind::data, "<object> has no <bndbox>");
        shape.box = {child_number(box, "xmin") - 1, child_number(box, "ymin") - 1, child_number(box, "xmax"),
                     child_number(box, "ymax")};
        sink.shape(image, shape);
      });
    }
  }
};

MILLRACE_PART { registry.add(AnnotationType{{"pascal_voc", "Pascal VOC's XML: boxes"}, std::make_shared<PascalVoc>()}); }

}  // namespace
}  // namespace millrace
