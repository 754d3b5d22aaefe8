#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/source.h"
#include "millrace/stage.h"
#include "millrace/storage.h"
#include "millrace/util/change_watch.h"

namespace millrace {

// The header of an IDX file: two zeros, the type of the elements, the number of extents, and the extents, 32 bits each, the most
// significant byte first. The elements follow without a gap.
// Source: "The IDX file format" at http://yann.lecun.com/exdb/mnist
struct IdxHeader {
  static constexpr std::size_t kMax = 4 + 4 * 4;  // size of a header with four extents

  std::vector<std::uint32_t> extents;  // outermost first; 1 to 4 extents

  std::uint64_t bytes() const { return 4 + 4 * extents.size(); }  // size of the header
  std::uint64_t element() const;                                  // bytes of everything below the outermost extent
};

// `bytes`: the beginning of the file, kMax bytes or all of it; `file_bytes`: its size. Throws ErrorKind::data if it is not an
// IDX file of unsigned bytes, or its length differs from its header.
IdxHeader read_idx_header(std::span<const std::uint8_t> bytes, std::uint64_t file_bytes);

// A source of images in IDX files, the format of MNIST and its relatives.
//
//   [train.read]
//   stage   = "read_idx"
//   path    = "mnist"       # the folder of train-images-idx3-ubyte and train-labels-idx1-ubyte
//   set     = "train"       # "test": t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte
//   shuffle = "every-epoch"
//
// Or files of any name: path = "emnist/images", labels = "emnist/labels"; `labels` is optional if the file is named like MNIST's,
// with "labels" and "idx1". Compressed files (.gz) must be unpacked first.
//
// Ports: out, SampleChunk: pixels, (height, width, 1) uint8, or (height, width, channels) for a file with four extents, which
// decode_image passes on unchanged.
// Threading: read() may run on any number of threads; each reads one image. Memory: one byte per label.
// Errors: missing, compressed or truncated files, different numbers of images and labels, labels that are not in `classes`, a
// file of images that is replaced during a run: ErrorKind::data.
class ReadIdx : public Source {
 public:
  struct Params : SourceParams {
    std::string path;
    std::optional<std::string> set;  // for a folder; default "train"
    std::string labels;
    std::vector<std::string> classes;
  };
  static void describe(StageDescription<Params>& description);

  ReadIdx(const Params& params, const StageSite& site);

  void open() override;
  std::uint64_t size() const override { return labels_.size(); }
  std::vector<std::string> classes() const override { return classes_; }
  std::int32_t label(std::uint64_t index) const override { return class_of_[labels_[index]]; }
  std::size_t largest_encoded() const override { return shape_.bytes(); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  bool place(std::uint64_t index, SampleOrigin& origin) const override;
  void read(Sample& sample) override;
  std::size_t memory_bound() const override { return labels_.capacity(); }

 private:
  std::string find_file(const std::string& kind) const;  // "images-idx3", "labels-idx1"
  std::string find_adjacent_labels() const;              // next to a file of images
  IdxHeader read_header(const std::string& url, const Storage::Object& object);
  void read_labels(const std::string& url);
  void number_by_classes();
  std::uint64_t hash_of_first_bytes(std::uint64_t bytes) const;  // hashes the file of images, which has this many bytes

  const std::string path_;
  RunServices* const run_;
  const std::string set_;
  const std::string labels_path_;  // empty: to be found
  Storage& storage_;
  const bool is_file_;  // path_ is the file of images itself
  std::string images_;
  std::uint64_t first_bytes_ = 0;  // hash of the beginning of the file of images
  std::unique_ptr<ChangeWatch> watch_;
  std::uint64_t header_bytes_ = 0;
  ImageShape shape_;
  std::vector<std::uint8_t> labels_;
  std::array<std::int32_t, 256> class_of_{};  // by label
  std::vector<std::string> classes_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace millrace
