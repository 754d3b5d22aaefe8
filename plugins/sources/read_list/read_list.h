#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "measure.h"
#include "millrace/stage.h"
#include "millrace/util/file_sizes.h"

namespace millrace {

// A source of the image files that a list names, each with a label, with numbers to be predicted, or both.
//
//   [train.read]
//   stage = "read_list"
//   path  = "data/birds/train.csv"     # file_name,label
//                                      # images/1.jpg,wren
// For regression, and for a folder as Hugging Face publishes it (metadata.csv, .tsv or .jsonl in it):
//
//   path    = "data/faces"
//   numbers = ["x", "y"]
//
// Files: .csv and .tsv with the columns' names in the first row (or in `columns`), fields in double quotes where needed, blanks
// around fields left out, commas, semicolons or tabs between them, and decimal commas where these do not separate; .jsonl with an
// object in each line. ending = ".jpg" is for lists that name files without it. Paths are relative to the list, or to `root`;
// absolute paths and URLs are taken as they are. A file may stand there more than once. Labels are names, without blanks around
// them, whose classes are sorted bytewise or stand in `classes`, or integers from 0 on: all of them alike, see
// meaning_of_labels(). With labels = "none" images have no class.
//
// With join = true, all lines that name the same file are one sample: each is a row of Sample::numbers, its class first where
// there is a column `label`, then its numbers. For boxes (label = "class", numbers = ["x1", "y1", "x2", "y2"]) and for several
// labels an image (label = "tag").
//
// Ports: out, SampleChunk. Indices count the rows; joined, the files in the order in which they are first named.
// Threading: read() may run on any number of threads. The list is read-only after open().
// Errors: what is wrong in the list: ErrorKind::data with list, line and column; the same when none of its files is there. A file
// that is missing, empty, or may not be read: a warning when the list is opened, ErrorKind::content when the file is read. A
// class without files, a file with two classes, and a column that tells parts apart (split): a warning.
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
  bool has_rows() const override { return columns_.join && numbers() > 0; }  // else there is nothing to be joined but files
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
  std::string path_, root_;  // root_ with a '/' at its end
  std::string format_;
  bool is_cp1252_;
  ListColumns columns_;
  std::vector<std::string> header_, given_classes_;
  Storage& storage_;  // of the list
  FileList list_;
  Measure measure_;
};

}  // namespace millrace
