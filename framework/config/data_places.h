// What lies in folders: of this machine, or of a storage that lists them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "millrace/plugin.h"

namespace millrace {

struct DataEntry {
  std::string name;
  bool is_folder = false;
  std::string fault;  // why it cannot be read: "is a link to '../val', which leads nowhere"; empty: it can be
};

// Looks into each folder once. Throws ErrorKind::data or storage where it cannot: what was not looked at is not absent.
class DataPlaces {
 public:
  explicit DataPlaces(const Registry& registry) : registry_(registry) {}

  // Sorted, without hidden names and folders of systems, and with the first few of many images. Nothing for what is no folder, or
  // what its source has to refuse. Valid as long as the object.
  const std::vector<DataEntry>& in(const std::string& folder);
  bool is_folder(const std::string& path);

 private:
  std::vector<DataEntry> list(const std::string& folder) const;
  std::vector<DataEntry> list_remote(const std::string& folder) const;

  const Registry& registry_;
  std::map<std::string, std::vector<DataEntry>> known_;
};

}  // namespace millrace
