// Parses servers' reply documents.
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
  std::vector<std::string> folders;  // prefixes that end in the delimiter, if one was requested
  std::string next;                  // continuation token; empty on the last page
};

// A reply to ListObjectsV2. Throws ErrorKind::storage if it is incomplete or inconsistent.
ListPage parse_list_page(std::string_view xml);

// The id of a multipart upload that has begun. Throws ErrorKind::storage if the reply has none.
std::string parse_upload_id(std::string_view xml);
// Throws ErrorKind::storage, with the server's cause, unless the reply confirms the completed upload: a server that began its
// answer with 200 may fail later.
void check_completed(std::string_view xml);
// The body of the completion request, with the parts' ETags in order.
std::string completion(const std::vector<std::string>& etags);
// The ETag, without quotes, that S3 makes from the parts' ETags: the MD5 of their MD5 sums, and their number. Empty if those are
// not MD5 sums, as with a key of AWS KMS.
std::string etag_of_parts(const std::vector<std::string>& etags);

// An error document; empty if it is not one. Texts are safe for a terminal.
struct ServerError {
  std::string code, message, region, endpoint;
};
ServerError parse_server_error(std::string_view xml);

}  // namespace millrace::s3
