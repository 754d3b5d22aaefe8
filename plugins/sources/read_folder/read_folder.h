#pragma once

#include <optional>
#include <string>
#include <vector>

#include "listing.h"
#include "millrace/source.h"
#include "millrace/stage.h"
#include "millrace/util/file_sizes.h"

namespace millrace {

// A source of labelled image files: one folder per class, with images in it and in folders below it.
//
//   [train.read]
//   stage   = "read_folder"
//   path    = "data/cifar10/train"   # data/cifar10/train/cat/0001.jpg is of class "cat"
//   shuffle = "every-epoch"
//
// Or files in any folders, with the class in the path: the first group of a regular expression, searched for in the path below
// `path` (RE2's syntax: Perl's without lookahead, lookbehind and backreferences, so that no path can make it slow; in TOML
// between single quotes, which keep backslashes).
//
//   path  = "s3://bucket/pets"
//   label = '(cat|dog)\.\d+\.jpg'    # train/cat.17.jpg is of class "cat"
//
// Or unlabelled images in any folders, for predictions. `classes` then only names the network's classes.
//
//   path   = "photos"
//   labels = "none"
//
// Folders with only hidden files are not classes; leave_out = ["drafts", "*/thumbs"] excludes others.
//
// Ports: out, SampleChunk. Labels are the positions of class names in bytewise order, or in `classes`; indices count the files in
// bytewise order of their paths.
// Threading: read() may run on any number of threads. The listing is read-only after open().
// Errors: a missing folder (in the constructor, if the storage can detect it), no image, images outside class folders, a path
// that does not match `label`: ErrorKind::data. An empty or missing file, or a dangling link: ErrorKind::content when it is read.
// Warnings: apparent images or classes that are left out, counted by reason; class folders with only folders; classes without
// images; label images next to their photographs, such as x_mask.png next to x.png.
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
  std::string root_;  // ends with '/'
  RunServices* run_;
  Storage& storage_;
  ImageListing listing_;
};

}  // namespace millrace
