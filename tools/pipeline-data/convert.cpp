// pipeline-data convert: writes annotations in another format.
#include "convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "common/arguments.h"
#include "common/last_words.h"
#include "millrace/annotation.h"
#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "millrace/util/annotation_files.h"
#include "millrace/util/files.h"
#include "millrace/util/image_names.h"
#include "millrace/util/image_size.h"
#include "millrace/util/output_file.h"
#include "millrace/util/standard_error.h"
#include "millrace/util/text.h"
#include "verbs.h"

namespace millrace {
namespace {

struct Picture {
  std::string name;
  ImageSize size;
  std::vector<AnnotatedShape> shapes;
};

// Everything that is annotated, in pixels.
class Collection : public AnnotationSink {
 public:
  Collection(const Registry& registry, const std::string& folder) : folder_(folder) {
    if (folder.empty()) return;
    storage_ = &storage_of(registry, folder);
    storage_->list(folder, [&](const Storage::Object& object) {
      if (usual_images().match(object.name)) files_.add(object.name);
    });
  }

  void classes(const std::vector<std::string>& names) override {
    for (const std::string& name : names) add_class(name);
  }
  std::uint32_t image(const AnnotatedImage& image) override {
    const std::string name = storage_ == nullptr ? ImageNames::path_of(image.name) : found(image);
    if (name.empty()) fail(ErrorKind::data, "'{}' is not the name of an image", line_text(image.name));
    const auto number = static_cast<std::uint32_t>(images_.size());
    const auto [known, is_new] = numbers_.try_emplace(name, number);
    if (!is_new && !image.may_repeat) fail(ErrorKind::data, "'{}' is annotated twice", line_text(name));
    if (!is_new) return known->second;
    ImageSize size{image.width, image.height};
    if (size.width < 1 || size.height < 1) size = size_of(name);
    images_.push_back({name, size, {}});
    return number;
  }
  void shape(std::uint32_t number, const AnnotatedShape& given) override {
    Picture& image = images_[number];
    if (given.kind == AnnotatedShape::Kind::image)
      return left_out("label of a whole image", "labels of whole images", image.name);
    add_class(given.label);
    AnnotatedShape shape = given;
    const double x = given.is_relative ? image.size.width : 1, y = given.is_relative ? image.size.height : 1;
    const auto scale = [&](auto& values) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] *= i % 2 == 0 ? x : y;
        if (!(std::abs(values[i]) < 1e6)) fail(ErrorKind::data, "{} is not a coordinate", values[i]);
      }
    };
    scale(shape.box);
    for (std::vector<double>& polygon : shape.polygons) {
      if (polygon.size() % 2 != 0) fail(ErrorKind::data, "a polygon has {} coordinates, an odd number", polygon.size());
      scale(polygon);
    }
    const std::uint64_t covered = std::accumulate(shape.runs.begin(), shape.runs.end(), std::uint64_t{0});
    const auto pixels = static_cast<std::uint64_t>(image.size.width) * static_cast<std::uint64_t>(image.size.height);
    if (shape.kind == AnnotatedShape::Kind::mask && covered != pixels)
      fail(ErrorKind::data, "the runs of a mask cover {} pixels, and '{}' has {}", covered, line_text(image.name), pixels);
    image.shapes.push_back(std::move(shape));
  }
  void left_out(std::string_view one, std::string_view several, std::string_view example) override {
    left_out_.add({std::string(one), std::string(several)}, example);
  }

  void add_unlisted() {
    for (std::size_t file = 0; file < files_.size(); ++file) {
      if (!numbers_.contains(files_[file])) images_.push_back({files_[file], size_of(files_[file]), {}});
    }
  }

  const std::vector<Picture>& images() const { return images_; }
  const std::vector<std::string>& class_names() const { return class_names_; }
  std::size_t class_number(const std::string& name) const { return class_numbers_.at(name); }
  const LeftOut& skipped() const { return left_out_; }

 private:
  void add_class(const std::string& name) {
    if (class_numbers_.try_emplace(name, class_names_.size()).second) class_names_.push_back(name);
  }
  std::string found(const AnnotatedImage& image) const {
    ImageNames::Found found = files_.find(image.name);
    if (!found.image && found.other.empty() && !image.other_name.empty()) found = files_.find(image.other_name);
    if (found.image) return files_[*found.image];
    fail(ErrorKind::data, "'{}' has {} matching image in '{}'", line_text(image.name),
         found.other.empty() ? "no" : "more than one", line_text(folder_));
  }
  ImageSize size_of(const std::string& name) const {
    if (storage_ == nullptr)
      fail(ErrorKind::data, "the size of '{}' is not stated: --images FOLDER names the folder of the images, which have it",
           line_text(name));
    ByteBuffer bytes;
    storage_->read(join_url(folder_, name), bytes);
    const auto size = image_size({bytes.data(), bytes.size()});
    if (!size) fail(ErrorKind::data, "the size of '{}' cannot be read: it is neither a JPEG nor a PNG", line_text(name));
    return *size;
  }

  const std::string folder_;
  Storage* storage_ = nullptr;  // of the images
  ImageNames files_;
  std::vector<Picture> images_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> class_names_;
  std::map<std::string, std::size_t> class_numbers_;
  LeftOut left_out_;
};

std::string json(const std::string& text) { return nlohmann::json(utf8_text(text)).dump(); }

// Bounding box and area, as COCO has them.
struct Extent {
  double left = 1e9, top = 1e9, right = -1e9, bottom = -1e9, area = 0;

  void add(double x, double y) {
    left = std::min(left, x);
    right = std::max(right, x);
    top = std::min(top, y);
    bottom = std::max(bottom, y);
  }
  std::string bbox() const { return fmt::format("[{}, {}, {}, {}]", left, top, right - left, bottom - top); }
};

Extent extent_of(const AnnotatedShape& shape, int height) {
  Extent extent;
  if (shape.kind == AnnotatedShape::Kind::box) {
    extent.add(shape.box[0], shape.box[1]);
    extent.add(shape.box[2], shape.box[3]);
    extent.area = (shape.box[2] - shape.box[0]) * (shape.box[3] - shape.box[1]);
  }
  for (const std::vector<double>& polygon : shape.polygons) {
    double twice = 0;
    for (std::size_t i = 0; i + 1 < polygon.size(); i += 2) {
      const std::size_t next = (i + 2) % polygon.size();
      extent.add(polygon[i], polygon[i + 1]);
      twice += polygon[i] * polygon[next + 1] - polygon[next] * polygon[i + 1];
    }
    extent.area += std::abs(twice) / 2;
  }
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < shape.runs.size(); at += shape.runs[i++]) {
    if (i % 2 == 0 || shape.runs[i] == 0) continue;
    const auto rows = static_cast<std::uint64_t>(height), last = at + shape.runs[i] - 1;
    const bool is_in_one = at / rows == last / rows;
    extent.add(static_cast<double>(at / rows), is_in_one ? static_cast<double>(at % rows) : 0);
    extent.add(static_cast<double>(last / rows + 1), static_cast<double>(is_in_one ? last % rows + 1 : rows));
    extent.area += shape.runs[i];
  }
  return extent;
}

std::string coco_outline(const AnnotatedShape& shape, const ImageSize& size) {
  if (shape.kind == AnnotatedShape::Kind::mask)
    return fmt::format(R"({{"size": [{}, {}], "counts": [{}]}})", size.height, size.width, fmt::join(shape.runs, ", "));
  std::vector<std::string> polygons;
  for (const std::vector<double>& polygon : shape.polygons) polygons.push_back(fmt::format("[{}]", fmt::join(polygon, ", ")));
  return fmt::format("[{}]", fmt::join(polygons, ", "));
}

void write_coco(const Collection& all, const std::string& path) {
  OutputFile file(path);
  file.write("{\"images\": [");
  for (std::size_t i = 0; i < all.images().size(); ++i) {
    const Picture& image = all.images()[i];
    file.write(fmt::format("{}\n{{\"id\": {}, \"file_name\": {}, \"width\": {}, \"height\": {}}}", i == 0 ? "" : ",", i + 1,
                           json(image.name), image.size.width, image.size.height));
  }
  file.write("],\n\"categories\": [");
  for (std::size_t i = 0; i < all.class_names().size(); ++i)
    file.write(fmt::format("{}\n{{\"id\": {}, \"name\": {}}}", i == 0 ? "" : ",", i + 1, json(all.class_names()[i])));
  file.write("],\n\"annotations\": [");
  std::size_t id = 0;
  for (std::size_t i = 0; i < all.images().size(); ++i) {
    const Picture& image = all.images()[i];
    for (const AnnotatedShape& shape : image.shapes) {
      const Extent extent = extent_of(shape, image.size.height);
      file.write(
          fmt::format("{}\n{{\"id\": {}, \"image_id\": {}, \"category_id\": {}, \"iscrowd\": {}, \"bbox\": {}, \"area\": {}, "
                      "\"segmentation\": {}}}",
                      id == 0 ? "" : ",", id + 1, i + 1, all.class_number(shape.label) + 1, shape.is_ignored ? 1 : 0,
                      extent.bbox(), extent.area, coco_outline(shape, image.size)));
      ++id;
    }
  }
  file.write("]}\n");
  file.commit();
}

// A line for a box, or for each part of a polygon.
std::string yolo_lines(const AnnotatedShape& shape, const ImageSize& size, std::size_t number) {
  if (shape.kind == AnnotatedShape::Kind::mask)
    fail(ErrorKind::data, "YOLO has no masks: polygons and boxes alone can be converted to it");
  if (shape.kind == AnnotatedShape::Kind::box) {
    const auto& [left, top, right, bottom] = shape.box;
    return fmt::format("{} {:.8g} {:.8g} {:.8g} {:.8g}\n", number, (left + right) / 2 / size.width,
                       (top + bottom) / 2 / size.height, (right - left) / size.width, (bottom - top) / size.height);
  }
  std::string lines;
  for (const std::vector<double>& polygon : shape.polygons) {
    lines += std::to_string(number);
    for (std::size_t i = 0; i < polygon.size(); ++i) {  // corners outside move to the edge
      lines += fmt::format(" {:.8g}", std::clamp(polygon[i] / (i % 2 == 0 ? size.width : size.height), 0., 1.));
    }
    lines += '\n';
  }
  return lines;
}

void write_yolo(Collection& all, const std::string& folder) {
  OutputFiles files;
  std::string names = "path: .\ntrain: images\nval: images\nnames:\n";
  for (std::size_t i = 0; i < all.class_names().size(); ++i) names += fmt::format("  {}: {}\n", i, json(all.class_names()[i]));
  files.add(join_url(folder, "data.yaml"), names);
  std::set<std::string> stems;
  for (const Picture& image : all.images()) {
    const std::string stem = image.name.substr(0, image.name.rfind('.'));
    if (!stems.insert(stem).second)
      fail(ErrorKind::data, "two images are called '{}': YOLO has one file for both", line_text(stem));
    std::string text;
    for (const AnnotatedShape& shape : image.shapes) {
      if (shape.is_ignored) {
        all.left_out("crowd or ignored shape", "crowds and ignored shapes", image.name);
        continue;
      }
      try {
        text += yolo_lines(shape, image.size, all.class_number(shape.label));
      } catch (Error& error) {
        throw error.in(fmt::format("'{}'", line_text(image.name)));
      }
    }
    files.add(join_url(folder, "labels/" + stem + ".txt"), text);
  }
  files.commit();
}

}  // namespace

Converted convert(const Registry& registry, const Conversion& conversion) {
  const FoundAnnotations found(registry, conversion.annotations);
  Collection all(registry, conversion.images);
  found.read(all);
  if (!found.list_empty_images()) all.add_unlisted();
  conversion.to == "coco" ? write_coco(all, conversion.out) : write_yolo(all, conversion.out);
  Converted converted{all.images().size(), 0, all.class_names().size(), ""};
  for (const Picture& image : all.images()) converted.shapes += image.shapes.size();
  if (!all.skipped().empty()) converted.warning = all.skipped().text(conversion.annotations);
  return converted;
}

int convert_verb(int count, const char* const* arguments) {
  Conversion conversion;
  std::vector<std::string> rest;
  Arguments reader("pipeline-data convert", "ANNOTATIONS --to FORMAT --out PATH [options]",
                   "Writes annotations, a file or folder in any format that is read, as COCO (a .json file) or YOLO (a folder\n"
                   "with data.yaml and labels/). Sizes that they do not state are read from the images.");
  reader.option("--to", "FORMAT", "coco or yolo", conversion.to)
      .option("--out", "PATH", "the new file or folder", conversion.out)
      .option("--images", "FOLDER", "the folder of the images", conversion.images);
  if (!reader.read(count, arguments, rest)) return 0;
  if (rest.size() != 1)
    fail(ErrorKind::usage, "expected one file or folder of annotations, found {}; see pipeline-data convert --help", rest.size());
  if (conversion.to != "coco" && conversion.to != "yolo")
    fail(ErrorKind::usage, "--to: expected coco or yolo, found '{}'", conversion.to);
  if (conversion.out.empty()) fail(ErrorKind::usage, "--out PATH, the new file or folder, is missing");
  conversion.annotations = rest[0];
  Registry registry;
  load_plugins(registry);
  const Converted converted = convert(registry, conversion);
  if (!converted.warning.empty()) print_to_stderr("warning: {}\n", converted.warning);
  fmt::print("{}: {} images, {} shapes, {} classes\n", conversion.out, converted.images, converted.shapes, converted.classes);
  return 0;
}

}  // namespace millrace
