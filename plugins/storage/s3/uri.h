// URLs: percent-encoding for Signature Version 4, "s3://bucket/key", and the bucket's HTTP address.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::s3 {

// Every byte except A-Z a-z 0-9 - . _ ~ becomes %XX, and '/' too unless it is kept.
std::string percent_encode(std::string_view text, bool keep_slash = false);

using Query = std::vector<std::pair<std::string, std::string>>;  // decoded names and values

// "a=1&b=2": encoded, in the order that signatures need.
std::string canonical_query(const Query& query);

struct ObjectUrl {
  std::string bucket;
  std::string key;  // the object's exact name: s3:// URLs have no escapes, so "a%20b" contains a percent sign
};

// Throws ErrorKind::usage for anything but "s3://bucket[/key]".
ObjectUrl parse_object_url(const std::string& url);

// The address for requests.
struct Endpoint {
  std::string scheme, host, path;  // "http", "127.0.0.1:9000", "" or "/prefix"
  bool bucket_in_host = false;     // AWS's preferred form, if the certificate covers it: names without dots

  std::string host_of(const std::string& bucket) const;                          // the Host header
  std::string path_of(const std::string& bucket, const std::string& key) const;  // encoded
};

// `url`: AWS_ENDPOINT_URL, or empty for AWS in this region. Throws ErrorKind::usage.
Endpoint make_endpoint(const std::string& url, const std::string& region);

}  // namespace millrace::s3
