#pragma once

#include <optional>
#include <string>
#include <vector>

#include "listing.h"
#include "millrace/source.h"
#include "millrace/stage.h"
#include "millrace/util/file_sizes.h"

namespace millrace {

// A source of labelled image files: one folder for each class, images in it and in folders below it.
//
//   [train.read]
//   stage   = "read_folder"
//   path    = "data/cifar10/train"   # data/cifar10/train/cat/0001.jpg is of class "cat"
//   shuffle = "every-epoch"
//
// Or files in any folders, whose paths tell the class: the first group of a regular expression that is searched for in the path
// below `path` (RE2's syntax: Perl's without lookahead, lookbehind and backreferences, which no path can make slow; in TOML
// between single quotes, which leave backslashes alone).
//
//   path  = "s3://bucket/pets"
//   label = '(cat|dog)\.\d+\.jpg'    # train/cat.17.jpg is of class "cat"
//
// Or images without classes, wherever they lie, of which predictions are to be made. `classes` then only names those of the
// network.
//
//   path   = "photos"
//   labels = "none"
//
// Folders that hold hidden files alone are no classes, and leave_out = ["drafts", "*/thumbs"] leaves out others.
//
// Ports: out, SampleChunk. Labels are the positions of class names in bytewise order, or in `classes`; indices count the
// files in bytewise order of their paths.
// Threading: read() may run on any number of threads. The listing is read-only after open().
// Errors: a missing folder (in the constructor, where the storage can tell), no image, images outside class folders, a path that
// does not match `label`: ErrorKind::data. A file that is empty, gone, or a link that leads nowhere: ErrorKind::content when it
// is read. Warnings: what seems to be an image or a class and is left out, counted by reason; class folders that hold folders
// alone; classes without images; label images beside their photographs, such as x_mask.png beside x.png.
class ReadFolder : public Source, public KnowsFileSizes {
 public:
  struct Params : SourceParams {
    std::string path;
    std::vector<std::string> extensions = {"jpg", "jpeg", "png"};
    std::vector<std::string> classes;
    std::optional<std::string> label;
    std::string labels = "path";
    std::vector<std::string> leave_out;
  };
  static void describe(StageDescription<Params>& description);

  ReadFolder(const Params& params, const StageSite& site);

  void open() override;
  std::uint64_t size() const override { return listing_.labels.size(); }
  std::vector<std::string> classes() const override { return listing_.classes; }
  std::int32_t label(std::uint64_t index) const override { return listing_.labels[index]; }
  std::size_t largest_encoded() const override { return listing_.largest; }
  std::uint32_t file_bytes(std::uint64_t index) const override { return listing_.bytes[index]; }
  std::uint64_t fingerprint() const override { return listing_.fingerprint; }
  std::uint64_t listing_hash() const override;
  bool place(std::uint64_t index, SampleOrigin& origin) const override;
  void read(Sample& sample) override;
  std::size_t memory_bound() const override { return listing_.memory(); }

 private:
  void warn_of_folders() const;
  void warn_of_masks() const;

  ListingOptions options_;
  std::string root_;  // with a '/' at its end
  RunServices* run_;
  Storage& storage_;
  ImageListing listing_;
};

}  // namespace millrace
