// Lists folders of this machine, or of a storage with listings.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "millrace/plugin.h"

namespace millrace {

struct DataEntry {
  std::string name;
  bool is_folder = false;
  std::string fault;  // why it cannot be read: "is a link to '../val', which leads nowhere"; empty: readable
};

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
