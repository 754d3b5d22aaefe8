#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/sample.h"
#include "millrace/source.h"
#include "millrace/stage.h"
#include "millrace/storage.h"

namespace millrace {

inline constexpr ImageShape kCifarImage{32, 32, 3};

// A record: the labels, one byte each (CIFAR-100: coarse, then fine), then the red, green and blue plane, row by row.
// Source: "Binary version" at https://www.cs.toronto.edu/~kriz/cifar.html
struct CifarFormat {
  static constexpr std::size_t kMaxRecord = 2 + kCifarImage.bytes();
  std::uint32_t label_bytes = 1;
  std::uint32_t label_at = 0;  // which label is used
  std::int32_t classes = 10;

  std::uint64_t record() const { return label_bytes + kCifarImage.bytes(); }
};

// A source of the images of CIFAR-10 or CIFAR-100 in their binary files.
//
//   [train.read]
//   stage   = "read_cifar"
//   path    = "cifar-10-batches-bin"   # or the folder of CIFAR-100, or one .bin file
//   set     = "train"                  # data_batch_*.bin or train.bin; "test": test_batch.bin or test.bin
//   shuffle = "every-epoch"
//
// Ports: out, SampleChunk: pixels, (32, 32, 3) uint8, which decode_image passes on unchanged. The files' sizes distinguish the
// two data sets. Names of the classes come from batches.meta.txt, or fine_label_names.txt and coarse_label_names.txt, in the same
// folder; without these, they are numbers.
// Threading: read() may run on any number of threads; each reads one record. Memory: one byte per image.
// Errors: missing or truncated files, coarse labels for CIFAR-10, which has none, a record whose label changed since the files
// were listed: ErrorKind::data. A label that is not a class: ErrorKind::content.
class ReadCifar : public Source {
 public:
  struct Params : SourceParams {
    std::string path;
    std::optional<std::string> set;  // for a folder; default "train"
    std::string labels = "fine";
  };
  static void describe(StageDescription<Params>& description);

  ReadCifar(const Params& params, const StageSite& site);

  void open() override;
  std::uint64_t size() const override { return labels_.size(); }
  std::vector<std::string> classes() const override { return classes_; }
  std::int32_t label(std::uint64_t index) const override { return labels_[index]; }
  std::size_t largest_encoded() const override { return kCifarImage.bytes(); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  bool place(std::uint64_t index, SampleOrigin& origin) const override;
  void read(Sample& sample) override;
  ImageShape image_shape() const override { return kCifarImage; }
  std::size_t memory_bound() const override { return labels_.capacity(); }

 private:
  struct File {
    std::string url;
    std::uint64_t end = 0;  // images up to the end of this file
  };
  std::vector<std::string> find_files() const;
  void read_labels(const std::string& url);
  void name_classes(const std::string& folder);
  void warn() const;  // REQUIRES: run_
  void warn_of_gaps() const;

  const std::string path_;
  const bool train_, fine_;
  RunServices* const run_;
  Storage& storage_;
  CifarFormat format_;
  std::vector<File> files_;
  std::vector<std::int8_t> labels_;
  std::vector<std::string> classes_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace millrace
