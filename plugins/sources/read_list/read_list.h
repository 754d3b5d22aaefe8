#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "file_list.h"
#include "millrace/plugin.h"
#include "millrace/stage.h"
#include "millrace/util/file_sizes.h"

namespace millrace {

struct Measure {
  std::vector<std::uint32_t> bytes;    // by path: saturated_size(); 0 if unknown
  std::size_t largest = 0;             // size of the largest file in bytes
  std::uint64_t fingerprint = 1;       // 0 if some file's version is unknown
  std::vector<std::uint32_t> missing;  // paths of missing or unreadable files, ascending
  std::string first_missing;           // the error of one, with list and line: the first local one

  std::size_t memory() const { return (bytes.capacity() + missing.capacity()) * sizeof(std::uint32_t); }
};

// Local files are checked one by one, on kAskingThreads: a million take some seconds on a local disk, and a million round trips
// divided by the threads on a network disk. On other storage the folder `root` is listed once; URLs elsewhere are accepted
// unchecked, and so are all URLs if the storage cannot list folders, as with a web server. Throws ErrorKind::data if no file
// exists, with the first one's error. `name`: the list's, for messages.
inline constexpr std::size_t kAskingThreads = 16;

// A source of the image files in a list, each with a label, with numbers to predict, or both.
//
//   [train.read]
//   stage = "read_list"
//   path  = "data/birds/train.csv"     # file_name,label
//                                      # images/1.jpg,wren
// For regression, and for a Hugging Face folder (with metadata.csv, .tsv or .jsonl):
//
//   path    = "data/faces"
//   numbers = ["x", "y"]
//
// Files: .csv and .tsv with column names in the first row (or in `columns`), optional double quotes, blanks around fields
// ignored, commas, semicolons or tabs as separators, and decimal commas if these do not separate; .jsonl with an object in each
// line. ending = ".jpg" is for lists that name files without it. Paths are relative to the list, or to `root`; absolute paths and
// URLs stay unchanged. A file may occur more than once. Labels are names, trimmed, with classes sorted bytewise or given in
// `classes`, or integers from 0 on: all of one kind, see meaning_of_labels(). With labels = "none" images have no class.
//
// With join = true, all lines with the same file form one sample: each is a row of Sample::numbers, its class first if there is a
// column `label`, then its numbers. For boxes (label = "class", numbers = ["x1", "y1", "x2", "y2"]) and for several labels per
// image (label = "tag").
//
// Ports: out, SampleChunk. Indices count the rows; if joined, the files in order of first occurrence.
// Threading: read() may run on any number of threads. The list is read-only after open().
// Errors: an invalid list: ErrorKind::data with list, line and column; also if none of its files exists. A missing, empty or
// unreadable file: a warning when the list is opened, ErrorKind::content when the file is read. A class without files, a file
// with two classes, and a column of parts (split): a warning.
class ReadList : public Source, public KnowsFileSizes {
 public:
  struct Params : SourceParams {
    std::string path;
    std::optional<std::string> root;
    std::string format = "auto", encoding = "utf-8";
    std::string file = "file_name";
    std::string ending;
    std::optional<std::string> label;
    std::string labels = "column";
    std::vector<std::string> numbers;
    std::vector<std::string> classes;
    std::vector<std::string> columns;
    bool join = false;
  };
  static void describe(StageDescription<Params>& description);

  ReadList(const Params& params, const StageSite& site);

  void open() override;
  std::uint64_t size() const override { return list_.paths.size(); }
  std::vector<std::string> classes() const override { return list_.classes; }
  std::int32_t label(std::uint64_t index) const override { return list_.labels.empty() ? -1 : list_.labels[index]; }
  std::uint32_t numbers() const override {
    return static_cast<std::uint32_t>(columns_.numbers.size() + (columns_.join && columns_.label ? 1 : 0));
  }
  bool has_rows() const override { return columns_.join && numbers() > 0; }  // otherwise only files are joined
  std::size_t largest_encoded() const override { return measure_.largest; }
  std::uint32_t file_bytes(std::uint64_t index) const override { return measure_.bytes[index]; }
  bool is_missing(std::uint64_t index) const override { return std::ranges::binary_search(measure_.missing, index); }
  std::uint64_t fingerprint() const override { return measure_.fingerprint; }
  std::uint64_t listing_hash() const override;
  bool place(std::uint64_t index, SampleOrigin& origin) const override;
  void read(Sample& sample) override;
  std::size_t memory_bound() const override { return list_.memory() + measure_.memory(); }

 private:
  std::string find_list() const;
  void warn_of_labels(const std::string& url) const;
  void warn_of_numbers(const std::string& url) const;

  const Registry* registry_;
  RunServices* run_;
  std::string path_, root_;  // root_ ends with '/'
  std::string format_;
  bool is_cp1252_;
  ListColumns columns_;
  std::vector<std::string> header_, given_classes_;
  Storage& storage_;  // the list's storage
  FileList list_;
  Measure measure_;
};

}  // namespace millrace
