#include "fields.h"

#include <curl/curl.h>

#include <charconv>

namespace millrace::web {

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<std::time_t> parse_date(const std::string& text) {
  const std::time_t time = ::curl_getdate(text.c_str(), nullptr);
  return time < 0 ? std::nullopt : std::optional(time);
}

std::string_view unquoted(std::string_view etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') return etag.substr(1, etag.size() - 2);
  return etag;
}

std::optional<ContentRange> parse_content_range(std::string_view value) {
  static constexpr std::string_view kUnit = "bytes ";
  const std::size_t slash = value.find('/');
  if (!value.starts_with(kUnit) || slash == value.npos) return std::nullopt;
  ContentRange range;
  const auto total = parse_number(value.substr(slash + 1));
  if (!total) return std::nullopt;
  range.total = *total;
  const std::string_view span = value.substr(kUnit.size(), slash - kUnit.size());
  if (span == "*") return range;
  const std::size_t dash = span.find('-');
  if (dash == span.npos) return std::nullopt;
  const auto first = parse_number(span.substr(0, dash)), last = parse_number(span.substr(dash + 1));
  if (!first || !last || *first > *last || *last >= range.total) return std::nullopt;
  range.inside = true;
  range.first = *first;
  range.last = *last;
  return range;
}

bool is_passing(int status) {
  return status == 408 || status == 425 || status == 429 || (status >= 500 && status != 501 && status != 505);
}

}  // namespace millrace::web
