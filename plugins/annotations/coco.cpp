// COCO's format of objects (cocodataset.org, "Data format"): `images`, `annotations` and `categories`, in any order. Runs of
// masks are listed, or packed into a text: five bits a letter, from the fourth run on as the difference to the run two before.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "json_document.h"
#include "millrace/annotation.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

constexpr std::int64_t kMaxRun = std::int64_t{1} << 30;

std::vector<std::uint32_t> packed_runs(const std::string& text) {
  std::vector<std::int64_t> runs;
  std::uint64_t value = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const int letter = c - '0';
    if (letter < 0 || letter > 63 || bits > 30)
      fail(ErrorKind::data, "segmentation.counts: '{}' is not a packed mask", shown(text, 40));
    value |= static_cast<std::uint64_t>(letter & 31) << bits;
    bits += 5;
    if ((letter & 32) != 0) continue;  // more bits follow
    auto run = static_cast<std::int64_t>((letter & 16) != 0 ? value | ~std::uint64_t{0} << bits : value);
    if (runs.size() > 2) run += runs[runs.size() - 2];
    if (run < 0 || run > kMaxRun) fail(ErrorKind::data, "segmentation.counts: run {} has the length {}", runs.size(), run);
    runs.push_back(run);
    value = bits = 0;
  }
  if (bits != 0) fail(ErrorKind::data, "segmentation.counts: the packed mask is cut off");
  return {runs.begin(), runs.end()};
}

std::vector<std::uint32_t> listed_runs(const Json& counts) {
  std::vector<std::uint32_t> runs;
  for (const double length : numbers(counts, "segmentation.counts")) {
    if (!(length >= 0 && length <= static_cast<double>(kMaxRun)))
      fail(ErrorKind::data, "segmentation.counts[{}] is {}, which is not a run's length", runs.size(), length);
    runs.push_back(static_cast<std::uint32_t>(length));
  }
  return runs;
}

class Coco : public AnnotationFormat {
 public:
  bool recognises(std::string_view name, std::string_view begin) const override {
    const auto has = [begin](std::string_view word) { return begin.find(word) != begin.npos; };
    return lower_case(name).ends_with(".json") && trimmed(begin).starts_with('{') && !has("\"shapes\"") &&
           (has("\"images\"") || has("\"annotations\""));
  }

  void read(AnnotationFiles& files, AnnotationSink& sink) const override {
    for (std::size_t file = 0; file < files.size(); ++file) File(files.place(file), files.text(file), sink).read();
  }

 private:
  struct Image {
    std::uint32_t number;
    int width, height;
  };

  class File {
   public:
    File(std::string place, std::string_view text, AnnotationSink& sink) : place_(std::move(place)), text_(text), sink_(sink) {}

    void read() {
      read_json(text_, place_, [this](const JsonElement& element) {
        if (element.member == "images") read_image(element);
        if (element.member == "categories") read_category(element.value);
      });
      if (images_.empty()) fail(ErrorKind::data, "{}: `images` is missing or empty", place_);
      std::vector<std::string> names;
      std::vector<std::pair<double, std::string>> by_id;
      for (const auto& [id, category] : categories_) by_id.emplace_back(category.order, category.name);
      std::ranges::sort(by_id);
      for (const auto& [order, name] : by_id) names.push_back(name);
      sink_.classes(names);
      read_json(text_, place_, [this](const JsonElement& element) {
        if (element.member == "annotations") read_annotation(element.value);
      });
    }

   private:
    struct Category {
      std::string name;
      double order;
    };

    static std::string id_of(const Json& object, const char* key) { return member(object, key).dump(); }

    void read_image(const JsonElement& element) {
      const Json& image = element.value;
      const int width = whole_number(image, "width", 0), height = whole_number(image, "height", 0);
      const std::string id = id_of(image, "id");
      if (images_.contains(id)) fail(ErrorKind::data, "id {} is another image's too", id);
      const std::uint32_t number =
          sink_.image({.name = text_of(image, "file_name"), .width = width, .height = height, .place = element.place(place_)});
      images_.emplace(id, Image{number, width, height});
    }

    void read_category(const Json& category) {
      const std::string id = id_of(category, "id"), name = text_of(category, "name");
      const Json& number = member(category, "id");
      const double order = number.is_number() ? number.get<double>() : static_cast<double>(categories_.size());
      const bool is_new = names_.insert(name).second && categories_.emplace(id, Category{name, order}).second;
      if (!is_new) fail(ErrorKind::data, "the category '{}' (id {}) has the name or id of another", line_text(name), id);
    }

    void read_annotation(const Json& annotation) {
      const auto image = images_.find(id_of(annotation, "image_id"));
      if (image == images_.end()) fail(ErrorKind::data, "image_id {} is not among `images`", id_of(annotation, "image_id"));
      const auto category = categories_.find(id_of(annotation, "category_id"));
      if (category == categories_.end())
        fail(ErrorKind::data, "category_id {} is not among `categories`", id_of(annotation, "category_id"));
      AnnotatedShape shape;
      shape.label = category->second.name;
      shape.is_ignored = whole_number(annotation, "iscrowd", 0) != 0 || whole_number(annotation, "ignore", 0) != 0;
      outline(annotation, image->second, shape);
      sink_.shape(image->second.number, shape);
    }

    static void outline(const Json& annotation, const Image& image, AnnotatedShape& shape) {
      const auto segmentation = annotation.find("segmentation");
      if (segmentation != annotation.end() && segmentation->is_object()) return mask(*segmentation, image, shape);
      if (segmentation != annotation.end() && segmentation->is_array() && !segmentation->empty()) {
        shape.kind = AnnotatedShape::Kind::polygon;
        for (const Json& polygon : *segmentation)
          shape.polygons.push_back(numbers(polygon, fmt::format("segmentation[{}]", shape.polygons.size())));
        return;
      }
      const std::vector<double> box = numbers(member(annotation, "bbox"), "bbox");
      if (box.size() != 4) fail(ErrorKind::data, "bbox has {} numbers; expected left, top, width, height", box.size());
      if (box[2] < 0 || box[3] < 0) fail(ErrorKind::data, "bbox has the size {} x {}", box[2], box[3]);
      shape.box = {box[0], box[1], box[0] + box[2], box[1] + box[3]};
    }

    static void mask(const Json& segmentation, const Image& image, AnnotatedShape& shape) {
      const std::vector<double> size = numbers(member(segmentation, "size"), "segmentation.size");
      if (size.size() != 2 || (image.width != 0 && (size[0] != image.height || size[1] != image.width)))
        fail(ErrorKind::data, "segmentation.size is [{}], and the image has the height {} and width {}", fmt::join(size, ", "),
             image.height, image.width);
      const Json& counts = member(segmentation, "counts");
      shape.kind = AnnotatedShape::Kind::mask;
      shape.runs = counts.is_string() ? packed_runs(counts.get<std::string>()) : listed_runs(counts);
    }

    const std::string place_;
    const std::string_view text_;
    AnnotationSink& sink_;
    std::unordered_map<std::string, Image> images_;
    std::map<std::string, Category> categories_;
    std::set<std::string> names_;  // of the categories
  };
};

MILLRACE_PART { registry.add(AnnotationType{{"coco", "COCO's JSON: boxes, polygons, masks"}, std::make_shared<Coco>()}); }

}  // namespace
}  // namespace millrace
