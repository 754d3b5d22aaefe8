// For storages that can list the names in a folder without all that lies below it.
#pragma once

#include <functional>
#include <string>

#include "millrace/storage.h"

namespace millrace {

// A Storage implements this too, where a listing of one level costs less than Storage::list().
class ListsNames {
 public:
  virtual ~ListsNames() = default;

  // As Storage::list(), and a folder is one name, "cat/". Servers that know no levels may give all that lies below it instead.
  virtual void list_names(const std::string& url, const std::function<void(Storage::Object)>& found) = 0;
};

}  // namespace millrace
