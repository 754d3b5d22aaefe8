#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/annotation.h"
#include "millrace/source.h"
#include "millrace/stage.h"
#include "millrace/util/file_sizes.h"
#include "millrace/util/files.h"
#include "millrace/util/image_names.h"
#include "shape_list.h"

namespace millrace {

// A source of images whose classes, labels or label maps are made from annotations: files that list shapes in images, as
// labelling tools export them. Formats are plugins (annotation.h), found by content.
//
//   [train.read]
//   stage       = "read_annotations"
//   images      = "data/images"
//   annotations = "data/train.json"
//   target      = "map"
//
// With samples = "objects" each shape is a sample: its bounding box with a margin, cut out of the upright image, and its class.
//
//   class    the class of all shapes in an image; an image with several classes is an error
//   labels   for each class in `numbers`, 1 if the image has a shape of it, else 0
//   counts   for each class in `numbers`, the number of its shapes
//   map      a label map: each pixel has the class of the last shape that covers it (label_map.h). Pixels without a shape are of
//            class "background", which is put first unless `classes` has it. Crowds and ignored shapes are drawn before all
//            others, as pixels that do not count
//
// Ports: out, SampleChunk; for label maps with encoded_target, a PNG. Indices count the images in bytewise order of their paths.
// Threading: read() may run on any number of threads. The shapes are read-only after open().
// Errors: invalid annotations, an image without a file (unless `unpaired` is "skip") or with two entries, a class that `classes`
// lacks: ErrorKind::data. An image whose size differs from the annotations': ErrorKind::content when it is read.
class ReadAnnotations : public Source, public KnowsFileSizes {
 public:
  enum class Made : std::uint8_t { one_class, labels, counts, map };
  struct Params : SourceParams {
    std::string images, annotations;
    Made target = Made::one_class;
    std::string folder;
    Value classes = Value(Array{});
    std::vector<std::string> numbers;
    std::vector<std::string> ignored;
    std::vector<std::string> leave_out;
    std::string samples = "images";
    double margin = 0;
    std::string empty = "auto";
    std::string unpaired = "fail";
  };
  static void describe(StageDescription<Params>& description);

  ReadAnnotations(const Params& params, const StageSite& site);

  void open() override;
  std::uint64_t size() const override { return paths_.size(); }
  std::vector<std::string> classes() const override { return classes_; }
  std::vector<std::string> colours() const override { return colours_; }
  std::int32_t label(std::uint64_t index) const override { return labels_.empty() ? -1 : labels_[index]; }
  std::uint32_t numbers() const override { return static_cast<std::uint32_t>(columns_.size()); }
  std::optional<TargetSpec> target() const override;
  std::size_t largest_encoded() const override { return largest_; }
  std::uint32_t file_bytes(std::uint64_t index) const override { return bytes_[index]; }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  std::uint64_t listing_hash() const override;
  bool place(std::uint64_t index, SampleOrigin& origin) const override;
  void read(Sample& sample) override;
  std::size_t memory_bound() const override;

 private:
  void list_images();
  void read_files(ShapeList& shapes);
  bool is_in_folder(std::size_t name) const { return names_[name].starts_with(folder_); }
  void take(const ShapeList::Image& image);  // adds a sample, or leaves the image out
  void add_sample(const ShapeList::Image& image, std::int32_t label);
  void add_objects(const ShapeList::Image& image);
  void make_decoder();
  void cut_out(std::uint64_t index, Sample& sample) const;
  std::vector<std::string> classes_with_background(const std::vector<std::string>& names) const;
  void choose_classes();
  void warn_of_skipped() const;
  void draw(const ShapeList::Image& image, std::uint8_t* pixels) const;

  const Registry* registry_;
  RunServices* run_;
  const std::string table_;                        // the source's table: "train.read"
  const std::string images_, annotations_, root_;  // root_ ends with '/'
  const Made made_;
  const bool has_objects_;
  const double margin_;  // of an object, on each side, as a share of its sides
  const bool skips_missing_;
  const std::string folder_;  // ends with '/', or is empty
  std::string empty_;
  std::vector<std::string> columns_;
  ShapeRules rules_;
  Storage& image_storage_;

  ImageNames names_;                         // until open() ends
  std::vector<std::uint64_t> listed_bytes_;  // by image in names_, likewise
  std::vector<std::uint64_t> listed_versions_;
  struct Object {
    ImageSize image;
    int left = 0, top = 0, width = 0, height = 0;
  };
  std::vector<Object> objects_;               // by sample
  std::shared_ptr<SampleTransform> decoder_;  // for objects
  std::unique_ptr<ShapeList> shapes_;
  std::vector<std::string> classes_, given_colours_, colours_;
  std::uint8_t background_ = 0;           // its label
  std::vector<std::int32_t> map_labels_;  // label of a shape's class, by the label in shapes_
  PathList paths_;
  std::vector<std::uint32_t> bytes_;
  std::vector<std::int32_t> labels_;     // by sample; empty for other targets than a class
  std::vector<float> numbers_;           // (samples, columns)
  std::vector<ShapeList::Image> drawn_;  // by sample, for label maps
  std::size_t largest_ = 0;
  std::uint64_t fingerprint_ = 1;
  LeftOut left_out_;
};

}  // namespace millrace
