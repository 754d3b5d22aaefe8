// The shapes of all images, as a format reads them, stored compactly: a polygon of n points takes 8 n + 40 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/annotation.h"
#include "millrace/util/files.h"
#include "millrace/util/image_names.h"
#include "millrace/util/image_size.h"
#include "millrace/util/pattern.h"

namespace millrace {

struct ShapeRules {
  std::vector<std::string> classes;    // in the order of labels; empty: those of the annotations
  std::vector<std::string> leave_out;  // patterns of classes whose shapes do not count
  std::set<std::string> ignored;       // classes whose shapes are ignored, like crowds
  bool skips_missing = false;          // images without a file are left out, with a warning
  bool keeps_outlines = false;         // polygons, masks and boxes are drawn
  bool needs_sizes = false;            // the size of each image, from its file if the annotations do not state it
  bool refuses_unknown = true;         // a class that `classes` lacks is an error; else such shapes do not count
};

struct StoredShape {
  static constexpr std::int32_t kIgnored = -1;

  std::uint32_t image = 0;  // the number that ShapeList::image() returned
  std::int32_t label = kIgnored;
  AnnotatedShape::Kind kind = AnnotatedShape::Kind::image;
  std::uint64_t begin = 0, end = 0;  // its part of the outlines
  std::array<float, 4> box = {};     // left, top, right, bottom; may leave the image. Not of Kind::image
};

class ShapeList : public AnnotationSink {
 public:
  // `size_of`: reads the size of an image from its file; called if the annotations do not state one and it is needed.
  ShapeList(const ShapeRules& rules, const ImageNames& names,
            std::function<std::optional<ImageSize>(std::uint32_t image)> size_of);

  void classes(const std::vector<std::string>& names) override;
  std::uint32_t image(const AnnotatedImage& image) override;
  void shape(std::uint32_t image, const AnnotatedShape& shape) override;
  void left_out(std::string_view one, std::string_view several, std::string_view example) override;

  void add_unlisted();  // images of which no annotation was read: they have no shapes
  // Sorts the shapes by image, without changing their order in an image, and numbers the classes. Call once, before these:
  void finish();
  const std::vector<std::string>& class_names() const { return class_names_; }
  const std::vector<std::uint64_t>& counts() const { return counts_; }  // shapes by label

  struct Image {
    std::uint32_t name = 0;            // its number in ImageNames
    ImageSize size;                    // zero: unknown
    std::uint64_t begin = 0, end = 0;  // its shapes
  };
  const std::vector<Image>& images() const { return images_; }
  const std::vector<StoredShape>& shapes() const { return shapes_; }
  // A polygon is its number of values and its points in the grid of LabelMap; a shape may have several. A mask is its runs.
  std::span<const std::int32_t> outline(const StoredShape& shape) const {
    return std::span(outlines_).subspan(shape.begin, shape.end - shape.begin);
  }

  const std::vector<std::string>& missing() const { return missing_; }  // places and names
  const LeftOut& skipped() const { return skipped_; }
  std::string unused_patterns(std::string_view where) const { return leaves_out_.unused(where); }
  std::size_t memory() const;

 private:
  static constexpr std::uint32_t kMissing = 0xffffffff;

  void add_image(std::uint32_t name, const ImageSize& stated);
  // The label, kIgnored, or empty for a shape that does not count.
  std::optional<std::int32_t> label_of(const AnnotatedShape& shape);
  std::int32_t add_class(const std::string& name);
  void check_mask(const AnnotatedShape& shape, const Image& image) const;
  // Scales and stores what is drawn; false: the shape covers nothing of its image, and the reason is counted.
  bool keep_outline(const AnnotatedShape& shape, const Image& image, StoredShape& stored);
  bool keep_mask(const AnnotatedShape& shape, const Image& image, StoredShape& stored);
  bool keep_polygons(const std::vector<std::vector<double>>& polygons, double x_scale, double y_scale, const Image& image,
                     StoredShape& stored);

  const ShapeRules& rules_;
  const ImageNames& names_;
  const std::function<std::optional<ImageSize>(std::uint32_t)> size_of_;
  std::vector<Image> images_;
  std::map<std::uint32_t, std::uint32_t> by_name_;  // images by their numbers in names_
  std::vector<std::string> places_;                 // by image, for messages; until finish()
  std::vector<StoredShape> shapes_;
  std::vector<std::int32_t> outlines_;
  std::vector<std::string> class_names_;
  std::size_t announced_ = 0;  // of class_names_, the first are in their final order
  std::map<std::string, std::int32_t, std::less<>> class_numbers_;
  std::vector<std::uint64_t> counts_;
  std::vector<std::string> missing_;
  LeavesOut leaves_out_;
  LeftOut skipped_;
};

}  // namespace millrace
