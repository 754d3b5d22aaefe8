#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/source.h"
#include "millrace/stage.h"
#include "millrace/util/file_sizes.h"
#include "millrace/util/files.h"
#include "millrace/util/label_values.h"

namespace millrace {

// Pairs, sorted bytewise by the images' names.
struct Pairing {
  PathList images, targets;          // below their folders; without targets the second is empty
  std::vector<std::uint32_t> bytes;  // image sizes: saturated_size()
  std::size_t largest = 0;           // size of the largest pair in bytes
  std::uint64_t fingerprint = 1;
  std::vector<std::string> left_out;   // files without a partner, as URLs, images first
  LeftOut not_images;                  // apparent images whose ending is not wanted
  std::vector<std::string> not_found;  // listed names without an image
  std::string unused_patterns;         // unused leave_out patterns, for a warning; empty if all match
  std::string assumed;                 // name endings taken for suffixes without being given; empty: none

  std::size_t memory() const { return images.memory() + targets.memory() + bytes.capacity() * sizeof(std::uint32_t); }
};

struct PairingFolder {
  Storage& storage;
  std::string url;
  std::string suffix;  // suffix of names, before the extension, that the other folder's names lack
  std::string folder;  // part of paths that the other folder's paths lack: "rgb" of "day/rgb/1.png"
};

struct PairingRule {
  Extensions extensions;
  std::vector<std::string> leave_out;  // patterns of paths below both folders
  bool by_name = false;                // only names match, whatever folder files lie in
  bool detects_suffixes = true;        // used if no name pairs as written
  std::set<std::string> listed;        // names, without suffix and extension; empty: all
};

// A source of images with target images: class numbers (segmentation), or an image that the network must reproduce (denoising,
// super-resolution), possibly the image itself.
//
//   [train.read]
//   stage   = "read_pairs"
//   images  = "data/camvid/train/images"      # images/a/1.jpg
//   labels  = "data/camvid/train/labels"      # labels/a/1.png
//   classes = [{ name = "sky", ids = [0], colour = "#808080" }, { name = "building", ids = [1, 4], colour = "#800000" }]
//   ignored = [11]
//
// The n-th class is the network's class n, whatever its ids in the label images; a class without `ids` uses its number as id. Its
// colour is for pictures of classes, such as those of `write_masks`. Ids without a class are ignored, like those in `ignored`
// (which declares them, so that mistakes are found). Without `labels` each image is its own target, and with target = "image" the
// other folder holds images too:
//
//   images = "data/noisy"
//   labels = "data/clean"
//   target = "image"
//
// For super-resolution targets are larger: with target_scale = 2 each target has twice the height and width of its image. An
// image that is its own target is shrunk when decoded (`shrink` of decode_image).
//
// Ports: out, SampleChunk; fills encoded and encoded_target; `url` is the image's, `target_url` its partner's. Indices count the
// pairs in bytewise order of the images' paths.
// Threading: read() may run on any number of threads. The pairs are read-only after open().
// Errors: a file without a partner, or a listed name without a file (unless `unpaired` is "skip"; then a warning), two files with
// one name, no image: ErrorKind::data. An empty or missing file, or a dangling link: ErrorKind::content when it is read.
class ReadPairs : public Source, public NamesLabelValues, public KnowsFileSizes {
 public:
  struct Class {
    std::string name;
    std::vector<std::int64_t> ids;
    std::string colour = {};
  };
  struct Params : SourceParams {
    std::string images;
    std::optional<std::string> labels;
    std::string target = "auto";
    std::int64_t target_scale = 1;
    std::vector<Class> classes;
    std::vector<std::int64_t> ignored;
    std::string suffix, image_suffix;
    std::string image_folder, label_folder;
    std::optional<std::string> list;
    std::string pair = "path";
    std::string unpaired = "fail";
    std::vector<std::string> extensions = {"jpg", "jpeg", "png"};
    std::vector<std::string> leave_out;
  };
  static void describe(StageDescription<Params>& description);

  ReadPairs(const Params& params, const StageSite& site);

  void open() override;
  std::uint64_t size() const override { return pairs_.images.size(); }
  std::vector<std::string> classes() const override { return classes_; }
  std::vector<std::string> colours() const override { return colours_; }
  bool names(std::uint8_t value) const override { return target_.classes[value] != target_.ignored || ignored_.contains(value); }
  std::optional<TargetSpec> target() const override { return target_; }
  std::size_t largest_encoded() const override { return pairs_.largest; }
  std::uint32_t file_bytes(std::uint64_t index) const override { return pairs_.bytes[index]; }
  std::uint64_t fingerprint() const override;
  std::uint64_t listing_hash() const override;
  bool place(std::uint64_t index, SampleOrigin& origin) const override;
  void read(Sample& sample) override;
  std::size_t memory_bound() const override { return pairs_.memory(); }

 private:
  void judge_files_without_a_partner() const;
  void judge_names_without_a_file() const;

  RunServices* run_;
  std::string table_;  // the source's table: "train.read"
  PairingFolder images_;
  std::optional<PairingFolder> targets_;
  PairingRule rule_;
  Storage* list_storage_ = nullptr;  // null without a list
  std::string list_;
  bool skip_unpaired_;
  std::string image_root_, target_root_;  // end with '/'
  std::vector<std::string> classes_, colours_;
  TargetSpec target_;
  std::set<std::int64_t> ignored_;  // by name
  Pairing pairs_;
};

}  // namespace millrace
