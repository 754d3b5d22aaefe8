// Which folders, lists and archives of a folder stand for parts of a data set: train, val2017, test.tar.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "config/data_places.h"
#include "millrace/util/data_names.h"

namespace millrace {

constexpr std::array<std::string_view, 5> kListEndings = {".csv", ".tsv", ".jsonl", ".tab", ".ndjson"};
bool is_list(const std::string& path);
bool is_shard(const std::string& path);

// What seems to hold a part of the data, and is not read.
struct Unread {
  PartName part;
  std::string path, why;
  enum class Sort { broken, packed, text } sort;  // text: it may lie there for another purpose
};

// Names by the part of a data set that they stand for. A folder comes before a list of its name.
class Parts {
 public:
  void add(const std::string& name, const std::string& path, bool is_folder);
  void add_unread(const std::string& name, const std::string& path, std::string why, Unread::Sort sort);

  bool has_both() const;
  // The training part, and the validation part that belongs to it; "" for what is not there, or not one alone.
  std::pair<std::string, std::string> pair() const;
  // Folders for the same part beside the one that is read: train2, `test` beside `testing`, and not `test` beside `val`, which is
  // for later.
  std::vector<std::string> beside(const std::string& read) const;
  // The list of the same part as a folder: train.csv beside train_images; "": there is none.
  std::string list_beside(const std::string& folder) const;
  // What seems to be meant for this part, rather than `read`, which may be "". `other`: the part that belongs to it.
  const Unread* meant(DataPart part, const std::string& read, const std::string& other) const;

 private:
  struct Found {
    std::tuple<int, bool, bool> order;
    PartName name;
    std::string path;
    bool is_folder;
  };
  static bool is_test(const Found& found);
  const Found* first(DataPart part, const Found* beside) const;
  const Found* at(const std::string& path) const;  // null: none of those that were added

  std::vector<Found> found_;
  std::vector<Unread> unread_;
};

// The folders and lists of a folder that are named after parts, and what is so named and not read.
Parts parts_of(const std::string& folder, const std::vector<DataEntry>& entries);

}  // namespace millrace
