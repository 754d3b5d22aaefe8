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

// A source of samples in tar archives ("shards"), as WebDataset lays them out: members of one name up to the first dot of its
// last part are one sample, and stand together.
//
//   [train.read]
//   stage   = "read_tar"
//   path    = "s3://photos/train-{000..127}.tar"   # or "shards/*.tar", or a folder
//   shuffle = "every-epoch"
//
// 000017.jpg (or .jpeg, .png) is the image, 000017.cls its class: a number from 0 on, or a name; with label = "field", the field
// of 000017.json. Names of the classes: `classes`; or the lines of classes.txt beside the shards; or the names that occur, sorted
// bytewise; or the numbers. Numbers count the lines of classes.txt, if it has names of the classes. Otherwise all labels of the
// shards are positions among the classes, or all are names of them. With labels = "none" the images have no classes, whatever the
// shards say of them. Each shard is listed once: its index is kept beside it as <shard>.index or in the cache folder (see
// IndexStore), and remade when the shard has changed.
//
// For segmentation, target = "classes": 000017.label.png holds the class number of each pixel, as `pipeline-data pack` writes it;
// the names stand in `classes` or classes.txt, and values that have none count nowhere. With target = "image", 000017.target.png
// (or .jpg) is what the network is to reproduce. Targets have the size of their image, or target_scale times its height and
// width.
//
// A path that exists is taken as it is written, before it is a pattern: "set [1]", "set [1]/train-*.tar". Where the names of
// images have dots in them, key_ends = "last-dot" reads them up to the last one.
//
// Ports: out, SampleChunk. Indices count samples as they lie in the shards, shards in the order that `path` gives.
// Threading: read() may run on any number of threads; one range of the shard is read for each member, with its header. By that,
// or by a ChangeWatch, a shard that was replaced since open() is noticed: ErrorKind::data. Memory: the indices. Errors: no shard,
// a shard that is no whole tar archive, samples whose members lie apart or are there twice, labels that are none of the classes:
// ErrorKind::data, from open(). A sample without an image or its target, or without a label that can be read while others have
// one: ErrorKind::content. What the storage throws. A shard of 0 bytes: ErrorKind::data. Warnings: images in shards that are no
// samples, counted by reason; shards without an end, or with much too long a one; classes without samples; members
// beside images that may name classes, and are not read.
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
    std::vector<std::int32_t> labels;  // of the index's names of classes
    std::uint64_t end = 0;             // samples in this shard and those before
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
  const Indexed& at(std::uint64_t& index) const;  // the shard; `index` becomes the place in it
  std::int32_t label_of(const Indexed& indexed, std::size_t at) const;

  IndexSettings settings_;
  TargetSpec target_;
  std::vector<ShardPath> paths_;
  std::vector<std::string> classes_;
  std::vector<std::string> listed_;            // classes.txt, where its lines are what numbers in the shards mean
  std::vector<std::int32_t> class_of_number_;  // by a label that is a number
  const Registry* registry_;
  RunServices* run_;
  std::vector<Indexed> shards_;
  const bool labels_;      // are read at all
  bool labelled_ = false;  // some samples have a label, so that all must have one
  std::size_t largest_ = 0;
  std::size_t memory_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace millrace
