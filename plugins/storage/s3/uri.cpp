#include "uri.h"

#include <algorithm>

#include "millrace/error.h"

namespace millrace::s3 {

namespace {

bool is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
         c == '~';
}

}  // namespace

std::string percent_encode(std::string_view text, bool keep_slash) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c) || (keep_slash && c == '/')) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return encoded;
}

std::string canonical_query(const Query& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  encoded.reserve(query.size());
  for (const auto& [name, value] : query) encoded.emplace_back(percent_encode(name), percent_encode(value));
  std::sort(encoded.begin(), encoded.end());
  std::string text;
  for (const auto& [name, value] : encoded) text.append(text.empty() ? "" : "&").append(name).append("=").append(value);
  return text;
}

ObjectUrl parse_object_url(const std::string& url) {
  static constexpr std::string_view kScheme = "s3://";
  if (!url.starts_with(kScheme)) fail(ErrorKind::usage, "'{}': expected s3://bucket/name", url);
  const std::string_view rest = std::string_view(url).substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  const std::string_view bucket = rest.substr(0, slash);
  const bool plain = std::all_of(bucket.begin(), bucket.end(), [](char c) { return is_unreserved(c) && c != '~'; });
  if (bucket.empty() || !plain || bucket.front() == '.' || bucket.front() == '-') {
    fail(ErrorKind::usage, "'{}': '{}' is not a bucket name: expected s3://bucket/name", url, bucket);
  }
  return {std::string(bucket), slash == rest.npos ? std::string() : std::string(rest.substr(slash + 1))};
}

std::string Endpoint::host_of(const std::string& bucket) const {
  return bucket_in_host && bucket.find('.') == bucket.npos ? bucket + "." + host : host;
}

std::string Endpoint::path_of(const std::string& bucket, const std::string& key) const {
  const bool in_host = host_of(bucket) != host;
  std::string whole = path;
  if (!in_host) whole.append("/").append(bucket);
  if (in_host || !key.empty()) whole.append("/").append(percent_encode(key, true));
  return whole;
}

Endpoint make_endpoint(const std::string& url, const std::string& region) {
  Endpoint endpoint;
  if (url.empty()) {
    endpoint.scheme = "https";
    endpoint.host = "s3." + region + (region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
    endpoint.bucket_in_host = true;
    return endpoint;
  }
  const auto refuse = [&] { fail(ErrorKind::usage, "AWS_ENDPOINT_URL = '{}': expected http://host:port or https://host", url); };
  const std::size_t colon = url.find("://");
  if (colon == url.npos) refuse();
  endpoint.scheme = url.substr(0, colon);
  if (endpoint.scheme != "http" && endpoint.scheme != "https") refuse();
  const std::size_t from = colon + 3, slash = std::min(url.find('/', from), url.size());
  endpoint.host = url.substr(from, slash - from);
  if (endpoint.host.empty() || endpoint.host.find_first_of("@?# \t\r\n") != endpoint.host.npos) refuse();
  endpoint.path = url.substr(slash);
  while (endpoint.path.ends_with('/')) endpoint.path.pop_back();
  if (endpoint.path.find_first_of("?# %\t\r\n") != endpoint.path.npos) refuse();
  const std::string standard = endpoint.scheme == "http" ? ":80" : ":443";  // clients omit it from the Host header
  if (endpoint.host.ends_with(standard)) endpoint.host.resize(endpoint.host.size() - standard.size());
  return endpoint;
}

}  // namespace millrace::s3
