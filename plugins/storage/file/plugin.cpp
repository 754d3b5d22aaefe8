#include "millrace/plugin.h"
#include "file_storage.h"
#include "millrace/storage.h"

MILLRACE_PLUGIN("storage_file", "1.0", "Files of this machine.") {
  registry.add(
      millrace::StorageType{{"file", "local files: a path, or file:///path"}, std::make_shared<millrace::FileStorage>()});
}
