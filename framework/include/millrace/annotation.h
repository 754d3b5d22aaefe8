// Formats of annotations: files in which a labelling tool lists images and the shapes in them. `read_annotations` gives each file
// to the format that recognises its content, and makes targets of the shapes.
//
//   class Dots : public millrace::AnnotationFormat {  // "a.jpg 12.5 30 cat": boxes of 4 x 4 pixels
//    public:
//     bool recognises(std::string_view name, std::string_view) const override { return name.ends_with(".dots.txt"); }
//     void read(millrace::AnnotationFiles& files, millrace::AnnotationSink& sink) const override {
//       for (std::size_t file = 0; file < files.size(); ++file) {
//         std::istringstream lines{std::string(files.text(file))};
//         millrace::AnnotatedImage image{.may_repeat = true};
//         millrace::AnnotatedShape shape;
//         for (double x = 0, y = 0; lines >> image.name >> x >> y >> shape.label;) {
//           shape.box = {x - 2, y - 2, x + 2, y + 2};
//           sink.shape(sink.image(image), shape);
//         }
//       }
//     }
//   };
//   MILLRACE_PLUGIN("dots", "1.0", "Dots.") {
//     registry.add(millrace::AnnotationType{{"dots", "Dots."}, std::make_shared<Dots>()});
//   }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/catalogue.h"

namespace millrace {

class Registry;

struct AnnotatedImage {
  std::string name = {};        // a path or name in any style: the source looks it up among the files that it has listed
  std::string other_name = {};  // tried if `name` is not found; empty: none
  int width = 0, height = 0;    // as displayed, turned upright; 0: not stated
  bool may_repeat = false;      // a second call with this name means the same image; otherwise it is an error
  std::string place = {};       // for messages: "train.json: images[3]"
};

// Coordinates are pixels from the upper left corner of the upright image: the first pixel covers 0 <= x < 1.
struct AnnotatedShape {
  enum class Kind { image, box, polygon, mask };  // image: the label is the whole image's

  Kind kind = Kind::box;
  std::string label = {};
  bool is_ignored = false;                         // a crowd, or marked difficult: trains nothing
  bool is_relative = false;                        // coordinates are shares of the image's width and height
  std::array<double, 4> box = {};                  // left, top, right, bottom; for masks and polygons the source finds it
  std::vector<std::vector<double>> polygons = {};  // x, y, x, y, ...; the shape is their union
  std::vector<std::uint32_t> runs = {};            // lengths of runs of 0 and 1 in turn, column by column, beginning with 0
};

// Receives what a format reads. Throws ErrorKind::data for what cannot be used, with a message that lacks the position: a format
// adds it by Error::in().
class AnnotationSink {
 public:
  virtual ~AnnotationSink() = default;

  // Names in the order of labels. Formats without such a list do not call it; the order is then bytewise.
  virtual void classes(const std::vector<std::string>& names) = 0;
  virtual std::uint32_t image(const AnnotatedImage& image) = 0;              // returns the image's number for shape()
  virtual void shape(std::uint32_t image, const AnnotatedShape& shape) = 0;  // later shapes cover earlier ones
  // Counts what is not read, for one warning: "ellipse", "ellipses".
  virtual void left_out(std::string_view one, std::string_view several, std::string_view example) = 0;
};

// The files that a format recognises, in bytewise order of their names.
class AnnotationFiles {
 public:
  virtual ~AnnotationFiles() = default;

  virtual std::size_t size() const = 0;
  virtual const std::string& name(std::size_t file) const = 0;  // below the folder of annotations: "train/1.xml"
  virtual std::string place(std::size_t file) const = 0;        // for messages: its URL
  virtual std::string_view text(std::size_t file) = 0;          // the whole file; valid until the next call
};

// Thread-safe and without state of its own.
class AnnotationFormat {
 public:
  virtual ~AnnotationFormat() = default;

  // `begin`: the first bytes of the file, at most kBegin. At most one format should recognise a file.
  virtual bool recognises(std::string_view name, std::string_view begin) const = 0;
  static constexpr std::size_t kBegin = 64 * 1024;

  // Throws ErrorKind::data, with file and position, for content that the format does not allow.
  virtual void read(AnnotationFiles& files, AnnotationSink& sink) const = 0;

  // Whether images without shapes are listed too. False: an image without a file has no shapes, as in YOLO.
  virtual bool lists_empty_images() const { return true; }
};

struct AnnotationType : TypeDescription {
  std::shared_ptr<const AnnotationFormat> format = {};
};

const Catalogue<AnnotationType>& annotations(const Registry& registry);

}  // namespace millrace
