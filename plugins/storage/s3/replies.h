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
  std::vector<std::string> folders;  // prefixes that end in the delimiter, where one was asked for
  std::string next;                  // continuation token; empty on the last page
};

// A reply to ListObjectsV2. Throws ErrorKind::storage when it is not a whole and consistent one.
ListPage parse_list_page(std::string_view xml);

// The id of an upload of several parts that has begun. Throws ErrorKind::storage when the reply names none.
std::string parse_upload_id(std::string_view xml);
// Throws ErrorKind::storage, with the server's cause, when the reply to the end of such an upload does not say that the object is
// made: a server that began its answer with 200 may find out later that it has failed.
void check_completed(std::string_view xml);
// The body of the request for that end, with the ETags of the parts in their order.
std::string completion(const std::vector<std::string>& etags);
// The ETag, without quotes, that S3 makes of those of the parts: their MD5 sums' MD5 sum, and how many there are. Empty where
// those are no MD5 sums, as with a key of AWS KMS.
std::string etag_of_parts(const std::vector<std::string>& etags);

// An error document; empty where it is none. Texts are fit for a terminal.
struct ServerError {
  std::string code, message, region, endpoint;
};
ServerError parse_server_error(std::string_view xml);

}  // namespace millrace::s3
