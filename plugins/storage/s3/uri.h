// URLs: percent-encoding as Signature Version 4 wants it, "s3://bucket/key", and where a bucket is reached over HTTP.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::s3 {

// Every byte but A-Z a-z 0-9 - . _ ~ becomes %XX, and '/' too unless it is kept.
std::string percent_encode(std::string_view text, bool keep_slash = false);

using Query = std::vector<std::pair<std::string, std::string>>;  // decoded names and values

// "a=1&b=2": encoded, in the order of names that a signature has.
std::string canonical_query(const Query& query);

struct ObjectUrl {
  std::string bucket;
  std::string key;  // the object's name byte for byte: nothing in an s3:// URL is an escape, "a%20b" has a percent sign
};

// Throws ErrorKind::usage for anything but "s3://bucket[/key]".
ObjectUrl parse_object_url(const std::string& url);

// Where requests go.
struct Endpoint {
  std::string scheme, host, path;  // "http", "127.0.0.1:9000", "" or "/prefix"
  bool bucket_in_host = false;     // as AWS wants it, where the certificate covers it: names without dots

  std::string host_of(const std::string& bucket) const;                          // the Host header
  std::string path_of(const std::string& bucket, const std::string& key) const;  // encoded
};

// `url`: AWS_ENDPOINT_URL, or empty for AWS in this region. Throws ErrorKind::usage.
Endpoint make_endpoint(const std::string& url, const std::string& region);

}  // namespace millrace::s3
