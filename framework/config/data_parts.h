// Recognises folders, lists and archives that are parts of a data set: train, val2017, test.tar.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "millrace/plugin.h"
#include "millrace/util/data_names.h"

namespace millrace {

constexpr std::array<std::string_view, 5> kListEndings = {".csv", ".tsv", ".jsonl", ".tab", ".ndjson"};
bool is_list(const std::string& path);
bool is_shard(const std::string& path);

// An entry of a folder.
struct DataEntry {
  std::string name;
  bool is_folder = false;
  std::string fault;  // why it cannot be read: "is a link to '../val', which leads nowhere"; empty: readable
};

// An entry that seems to contain a part of the data but is not read.
struct Unread {
  PartName part;
  std::string path, why;
  enum class Sort { broken, packed, text } sort;  // text: it may have another purpose
};

// Names by part of a data set. A folder comes before a list of its name.
class Parts {
 public:
  void add(const std::string& name, const std::string& path, bool is_folder);
  void add_unread(const std::string& name, const std::string& path, std::string why, Unread::Sort sort);

  bool has_both() const;
  // The training part and the matching validation part; "" if missing or ambiguous.
  std::pair<std::string, std::string> pair() const;
  // Other folders for the same part: train2, `test` next to `testing`; but not `test` next to `val`, which is for later.
  std::vector<std::string> siblings(const std::string& read) const;
  // The list for the same part as a folder: train.csv for train_images; "": none.
  std::string list_next_to(const std::string& folder) const;
  // The unread entry that seems to be meant for this part instead of `read`, which may be "". `other`: the matching part.
  const Unread* meant(DataPart part, const std::string& read, const std::string& other) const;

 private:
  struct Found {
    std::tuple<int, bool, bool> order;
    PartName name;
    std::string path;
    bool is_folder;
  };
  static bool is_test(const Found& found);
  const Found* first(DataPart part, const Found* sibling) const;
  const Found* at(const std::string& path) const;  // null: not added

  std::vector<Found> found_;
  std::vector<Unread> unread_;
};

// The folders and lists in a folder that are named after parts, including unread ones.
Parts parts_of(const std::string& folder, const std::vector<DataEntry>& entries);

// Lists each folder once. Throws ErrorKind::data or storage on failure, since an unlisted folder is not an absent one.
class DataPlaces {
 public:
  explicit DataPlaces(const Registry& registry) : registry_(registry) {}

  // Sorted, without hidden names and system folders, and with only the first of many images. Empty for anything but a folder, or
  // if its source must refuse it. Valid as long as the object.
  const std::vector<DataEntry>& in(const std::string& folder);
  bool is_folder(const std::string& path);

 private:
  std::vector<DataEntry> list(const std::string& folder) const;
  std::vector<DataEntry> list_remote(const std::string& folder) const;

  const Registry& registry_;
  std::map<std::string, std::vector<DataEntry>> known_;
};

}  // namespace millrace
