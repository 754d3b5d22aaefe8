#include "millrace/plugin.h"
#include "http_storage.h"
#include "millrace/storage.h"

MILLRACE_PLUGIN("storage_http", "1.0", "Files of web servers: https://host/name.") {
  const auto storage = std::make_shared<millrace::http::HttpStorage>();
  for (const char* scheme : {"http", "https"}) {
    registry.add(millrace::StorageType{{scheme, std::string("Files of web servers: ") + scheme + "://host/name"}, storage});
  }
}
