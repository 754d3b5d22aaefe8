// What servers answer, read from their documents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared.h"

namespace millrace::s3 {

struct ListedObject {
  std::string key;
  std::uint64_t bytes = 0;
  std::string etag;  // without quotes
};

struct ListPage {
  std::vector<ListedObject> objects;
  std::string next;  // continuation token; empty on the last page
};

// A reply to ListObjectsV2. Throws ErrorKind::storage when it is not a whole and consistent one.
ListPage parse_list_page(std::string_view xml);

// An error document; empty where it is none. Texts are fit for a terminal.
struct ServerError {
  std::string code, message, region, endpoint;
};
ServerError parse_server_error(std::string_view xml);

}  // namespace millrace::s3
