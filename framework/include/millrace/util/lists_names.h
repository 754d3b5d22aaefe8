// For storages that can list the names in a folder without everything below it.
#pragma once

#include <functional>
#include <string>

#include "millrace/storage.h"

namespace millrace {

// A Storage implements this too if listing one level costs less than Storage::list().
class ListsNames {
 public:
  virtual ~ListsNames() = default;

  // Like Storage::list(), but a folder is one name, "cat/". Servers without levels may list everything below instead.
  virtual void list_names(const std::string& url, const std::function<void(Storage::Object)>& found) = 0;
};

}  // namespace millrace
