#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "index_store.h"
#include "millrace/plugin.h"
#include "millrace/source.h"
#include "millrace/stage.h"
#include "millrace/util/change_watch.h"
#include "millrace/util/file_sizes.h"

namespace millrace {

class RunServices;

// A source of samples in tar archives ("shards"), in WebDataset's layout: consecutive members with the same name up to the first
// dot of its last part form a sample.
//
//   [train.read]
//   stage   = "read_tar"
//   path    = "s3://photos/train-{000..127}.tar"   # or "shards/*.tar", or a folder
//   shuffle = "every-epoch"
//
// 000017.jpg (or .jpeg, .png) is the image, 000017.cls its class: a number from 0 on, or a name; with label = "field", the field
// of 000017.json. Names of the classes: `classes`; or the lines of classes.txt next to the shards; or the names that occur,
// sorted bytewise; or the numbers. Numbers are line numbers of classes.txt, if it has names of the classes. Otherwise all labels
// in the shards are positions among the classes, or all are names. With labels = "none" the images have no classes, whatever the
// shards contain. Each shard is listed once: its index is stored next to it as <shard>.index or in the cache folder (see
// IndexStore), and rebuilt when the shard changes.
//
// For segmentation, target = "classes": 000017.label.png holds the class number of each pixel, as `pipeline-data pack` writes it;
// names are in `classes` or classes.txt, and values without a name are ignored. With target = "image", the network must reproduce
// 000017.target.png (or .jpg). Targets have the size of their image, or target_scale times its height and width.
//
// The existing part of a path is literal, the rest may be a pattern: "set [1]", "set [1]/train-*.tar". For image names with dots,
// key_ends = "last-dot" ends the key at the last one.
//
// Ports: out, SampleChunk. Indices count samples in shard order, shards in the order of `path`.
// Threading: read() may run on any number of threads; it reads one range of the shard for each member, with its header. The
// header, or a ChangeWatch, reveals a shard that was replaced since open(): ErrorKind::data. Memory: the indices. Errors: no
// shard, an incomplete tar archive, samples whose members are not consecutive or occur twice, labels that are not among the
// classes: ErrorKind::data, from open(). A sample without an image or its target, or without a readable label while others have
// one: ErrorKind::content. Errors of the storage. A shard of 0 bytes: ErrorKind::data. Warnings: images in shards that are not
// samples, counted by reason; shards without an end mark, or with a much too long one; classes without samples; members next to
// images that may name classes but are not read.
class ReadTar : public Source, public KnowsFileSizes {
 public:
  struct Params : SourceParams {
    std::string path;
    std::vector<std::string> paths;
    std::vector<std::string> classes;
    std::string labels = "shards";
    std::string label;
    std::string numbers;
    std::string target = "none";
    std::string target_name;
    std::int64_t target_scale = 1;
    std::string key_ends = "first-dot";
  };
  static void describe(StageDescription<Params>& description);

  ReadTar(const Params& params, const StageSite& site);

  void open() override;
  std::uint64_t size() const override { return shards_.empty() ? 0 : shards_.back().end; }
  std::vector<std::string> classes() const override { return classes_; }
  std::int32_t label(std::uint64_t index) const override;
  std::size_t largest_encoded() const override { return largest_; }
  std::uint32_t file_bytes(std::uint64_t index) const override;
  std::optional<TargetSpec> target() const override { return target_; }
  std::uint32_t numbers() const override { return shards_.empty() ? 0 : shards_.front().index.numbers(); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  std::uint64_t listing_hash() const override;
  bool place(std::uint64_t index, SampleOrigin& origin) const override;
  void read(Sample& sample) override;
  std::size_t memory_bound() const override { return memory_; }

 private:
  struct Indexed {
    Shard shard;
    TarIndex index;
    std::vector<std::int32_t> labels;  // labels for the index's class names
    std::uint64_t end = 0;             // samples up to the end of this shard
    std::unique_ptr<ChangeWatch> watch;
  };

  std::vector<Shard> find(LeftOut& left_out) const;
  void warn_of_shards(const LeftOut& left_out) const;
  void warn_of_samples() const;
  void warn_of_classes() const;
  void warn_of_other_labels() const;
  std::string advice_on_dots() const;
  void read_indices(std::vector<Shard> shards);
  void name_numbers(const std::vector<Shard>& shards);
  void number_by_lines();
  void name_classes();
  void map_labels();
  const Indexed& at(std::uint64_t& index) const;  // the shard; `index` becomes the position in it
  std::int32_t label_of(const Indexed& indexed, std::size_t at) const;

  IndexSettings settings_;
  TargetSpec target_;
  std::vector<ShardPath> paths_;
  std::vector<std::string> classes_;
  std::vector<std::string> listed_;            // classes.txt, if numbers in the shards refer to its lines
  std::vector<std::int32_t> class_of_number_;  // by numeric label
  const Registry* registry_;
  RunServices* run_;
  std::vector<Indexed> shards_;
  const bool labels_;      // false: labels are not read
  bool labelled_ = false;  // some samples have a label, so all must have one
  std::size_t largest_ = 0;
  std::size_t memory_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace millrace
