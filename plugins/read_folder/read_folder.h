#pragma once

#include <string>
#include <vector>

#include "listing.h"
#include "millrace/stage.h"

namespace millrace {

// A source of labelled image files: one folder for each class, images in it and in folders below it.
//
//   [train.read]
//   stage   = "read_folder"
//   path    = "data/cifar10/train"   # data/cifar10/train/cat/0001.jpg is of class "cat"
//   shuffle = "every-epoch"
//
// Ports: out, SampleChunk. Labels are the positions of class names in bytewise order, or in `classes`; indices count the
// files in bytewise order of their paths.
// Threading: read() may run on any number of threads. The listing is read-only after open().
// Errors: a missing folder (in the constructor), no image, images outside class folders: ErrorKind::data. A file that is gone
// or cannot be read: ErrorKind::storage. An empty file: ErrorKind::content. A class without images: a warning.
class ReadFolder : public Source {
 public:
  struct Params : SourceParams {
    std::string path;
    std::vector<std::string> extensions = {"jpg", "jpeg"};
    std::vector<std::string> classes;
  };
  static void describe(StageDescription<Params>& description);

  ReadFolder(const Params& params, const StageContext& context);
  ~ReadFolder() override;

  void open() override;
  std::uint64_t size() const override { return listing_.size(); }
  std::vector<std::string> classes() const override { return listing_.classes(); }
  std::size_t largest_encoded() const override { return listing_.largest(); }
  void read(Sample& sample) override;
  std::size_t memory_bound() const override { return listing_.memory(); }

 private:
  ListingOptions options_;
  RunServices* run_;
  ImageListing listing_;
  int root_ = -1;  // kept open: paths are looked up from here
};

}  // namespace millrace
