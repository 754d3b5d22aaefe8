// What servers answer, read from their documents and headers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// Text that came over the network, made fit for a message: printable, not too long.
std::string printable(std::string_view text);

// "bytes 0-99/1234", or "bytes */1234" for a range outside the object.
struct ContentRange {
  bool inside = false;
  std::uint64_t first = 0, last = 0;  // when inside
  std::uint64_t total = 0;
};
std::optional<ContentRange> parse_content_range(std::string_view value);

std::optional<std::uint64_t> parse_number(std::string_view text);  // decimal digits only
std::string_view unquoted(std::string_view etag);

}  // namespace millrace::s3
