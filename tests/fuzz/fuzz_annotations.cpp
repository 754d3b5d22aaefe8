// Every format of annotations, the sink that stores its shapes, and the drawing of label maps.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "fuzz.h"
#include "label_map.h"
#include "millrace/annotation.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/image_names.h"
#include "millrace/util/image_size.h"
#include "shape_list.h"

namespace millrace::fuzz {

namespace {

// The first byte of an input chooses the name of its file.
constexpr std::array kNames = {"a.json", "a.xml", "labels/a.txt", "a.csv"};
constexpr const char* kClasses = "data.yaml";

class Files : public AnnotationFiles {
 public:
  Files(std::string name, std::string text) : names_{std::move(name), kClasses}, texts_{std::move(text), "names: [cat, dog]\n"} {}

  std::size_t size() const override { return names_[0] == kNames[2] ? 2 : 1; }
  const std::string& name(std::size_t file) const override { return names_[file]; }
  std::string place(std::size_t file) const override { return names_[file]; }
  std::string_view text(std::size_t file) override { return texts_[file]; }

 private:
  std::array<std::string, 2> names_, texts_;
};

void draw(const ShapeList& shapes) {
  constexpr std::int64_t kMax = 1 << 20;
  for (const ShapeList::Image& image : shapes.images()) {
    const auto [width, height] = image.size;
    if (std::int64_t{width} * height > kMax) continue;
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
    LabelMap map(pixels.data(), width, height);
    for (std::uint64_t i = image.begin; i < image.end; ++i) {
      const StoredShape& shape = shapes.shapes()[i];
      std::span<const std::int32_t> outline = shapes.outline(shape);
      if (shape.kind == AnnotatedShape::Kind::mask) {
        map.runs(outline, 1);
        continue;
      }
      while (!outline.empty()) {
        const auto count = static_cast<std::size_t>(outline.front());
        require(count < outline.size(), "outlines are stored whole");
        map.polygon(outline.subspan(1, count), 1);
        outline = outline.subspan(1 + count);
      }
    }
  }
}

void read(const AnnotationFormat& format, Files& files) {
  ImageNames names;
  for (const char* name : {"a.png", "b.png", "day/c.png"}) names.add(name);
  ShapeRules rules;
  rules.keeps_outlines = rules.needs_sizes = rules.skips_missing = true;
  try {
    ShapeList shapes(rules, names, [](std::uint32_t) { return std::optional<ImageSize>(ImageSize{64, 48}); });
    format.read(files, shapes);
    shapes.finish();
    draw(shapes);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::data, "what is wrong with annotations is an error of the data");
  }
}

}  // namespace

std::vector<std::string> seeds() {
  const auto file = [](char name, const std::string& text) { return name + text; };
  return {
      file(
          '\0',
          R"({"images": [{"id": 7, "file_name": "a.png", "width": 6, "height": 4}, {"id": 9, "file_name": "b.png"}], "annotations": [
{"image_id": 7, "category_id": 2, "segmentation": {"size": [4, 6], "counts": "121Ob0"}},
{"image_id": 7, "category_id": 2, "segmentation": {"size": [4, 6], "counts": [1, 2, 1, 1, 19]}},
{"image_id": 9, "category_id": 5, "segmentation": [[1, 1, 50, 1, 50.5, 30, 1, 30.25], [0, 0, 5, 5, 0, 5]], "iscrowd": 1},
{"image_id": 9, "category_id": 5, "bbox": [1, 2, 30, 20]}], "categories": [{"id": 5, "name": "dog"}, {"id": 2, "name": "cat"}]})"),
      file(
          '\0',
          R"({"flags": {"good": true}, "shapes": [{"label": "cat", "points": [[1, 2], [30, 4], [20, 30]], "shape_type": "polygon"},
{"label": "dog", "points": [[9, 9], [15, 10]], "shape_type": "circle"}], "imagePath": "a.png", "imageHeight": 40, "imageWidth": 60})"),
      file('\0', R"([{"annotations": [{"was_cancelled": false, "result": [{"original_width": 60, "original_height": 40,
"type": "rectanglelabels", "value": {"x": 10, "y": 10, "width": 30, "height": 20, "rotation": 10, "rectanglelabels": ["cat"]}},
{"original_width": 60, "original_height": 40, "type": "polygonlabels", "value": {"points": [[1, 1], [50, 1], [50, 50]],
"polygonlabels": ["dog"]}}, {"type": "choices", "value": {"choices": ["good"]}}]}], "data": {"image": "/data/upload/1/0a1b2c3d-a.png"}}])"),
      file('\1',
           "<annotation><filename>a.png</filename><size><width>60</width><height>40</height></size><object><name>cat</"
           "name><bndbox>"
           "<xmin>2</xmin><ymin>3</ymin><xmax>40</xmax><ymax>30</ymax></bndbox></object></annotation>"),
      file('\1',
           "<annotations><image name=\"a.png\" width=\"60\" height=\"40\"><box label=\"dog\" xtl=\"1\" ytl=\"1\" xbr=\"30\" "
           "ybr=\"20\" "
           "rotation=\"20\"/><polygon label=\"cat\" points=\"1,1;30,2;20,30\"/><mask label=\"cat\" rle=\"1, 2, 1\" left=\"0\" "
           "top=\"2\" "
           "width=\"2\" height=\"2\"/><ellipse label=\"cat\" cx=\"20\" cy=\"20\" rx=\"5\" ry=\"4\"/></image></annotations>"),
      file('\2', "0 0.5 0.5 0.3 0.2\n1 0.1 0.1 0.9 0.1 0.5 0.9\n"),
      file('\3', "filename,width,height,class,xmin,ymin,xmax,ymax\na.png,60,40,cat,1,1,30,30\n\"b.png\",,,dog,1,1,3,3\n")};
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  using namespace millrace::fuzz;
  static const Registry registry = [] {
    Registry made;
    register_parts(made);
    return made;
  }();
  if (size == 0) return 0;
  const std::string text(data + 1, data + size);
  Files files(kNames[data[0] % kNames.size()], text);
  for (const auto& [name, type] : annotations(registry)) {
    if (type.format->recognises(files.name(0), std::string_view(text).substr(0, AnnotationFormat::kBegin)))
      read(*type.format, files);
  }
  return 0;
}
