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

  // Calls `found` for each object directly in the folder `url`, and for each folder in it, with a '/' at its end, in any order;
  // a name may come more than once. Leaves out what Storage::list() does, and throws what it throws.
  virtual void list_names(const std::string& url, const std::function<void(const Storage::Object&)>& found) = 0;
};

}  // namespace millrace
