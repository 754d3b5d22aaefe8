#pragma once

#include <re2/re2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/source.h"
#include "millrace/stage.h"
#include "millrace/util/file_sizes.h"
#include "millrace/util/files.h"

namespace millrace {

struct ImageListing {
  PathList paths;                      // below the root: "cat/young/0001.jpg"
  std::vector<std::int32_t> labels;    // by path
  std::vector<std::uint32_t> bytes;    // file sizes by path: saturated_size()
  std::vector<std::string> classes;    // by label
  std::vector<std::uint64_t> counts;   // images by label
  std::size_t largest = 0;             // size of the largest file in bytes
  std::uint64_t fingerprint = 1;       // hash of names, sizes and versions
  LeftOut left_out;                    // files that seem to be images or classes but are left out
  std::string unused_patterns;         // unused leave_out patterns, for a warning; empty if all match
  std::size_t folders = 0;             // class folders with images
  std::size_t folders_of_folders = 0;  // those whose images all lie in folders below
  std::string folder_of_folders;       // one of them: "train/cat"
  std::vector<std::string> masks;      // named like label images of photographs in the same folder: "cat/1_mask.png"
  std::set<std::string> mask_names;    // patterns of their names: "*_mask.*"

  std::size_t memory() const {
    return paths.memory() + labels.capacity() * sizeof(std::int32_t) + bytes.capacity() * sizeof(std::uint32_t);
  }
};

struct ListingOptions {
  std::string root;  // a URL
  Extensions extensions;
  std::vector<std::string> classes;    // empty: those found, sorted bytewise
  std::unique_ptr<const RE2> label;    // its first group is the class; null: the folder is
  bool labelled = true;                // false: images lie anywhere and have no class
  std::vector<std::string> leave_out;  // patterns of paths below the root
  std::string table;                   // the source's table, "train.read", for messages
};

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
