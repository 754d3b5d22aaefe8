#include "url.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "millrace/error.h"

namespace millrace::http {

namespace {

// A URL parsed by curl.
class ParsedUrl {
 public:
  ParsedUrl() : url_(curl_url()) {
    if (!url_) fail(ErrorKind::run, "libcurl: out of memory");
  }

  // The second one is relative to the first.
  bool add(const std::string& text) { return curl_url_set(url_.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK; }

  std::string part(CURLUPart what) const {
    char* text = nullptr;
    if (curl_url_get(url_.get(), what, &text, what == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0) != CURLUE_OK) return {};
    const std::unique_ptr<char, void (*)(void*)> owned(text, curl_free);
    return text;
  }

  bool is_web() const {
    const std::string scheme = part(CURLUPART_SCHEME);
    return (scheme == "http" || scheme == "https") && !part(CURLUPART_HOST).empty();
  }
  bool has_user() const { return !part(CURLUPART_USER).empty() || !part(CURLUPART_PASSWORD).empty(); }

 private:
  struct Free {
    void operator()(CURLU* url) const { curl_url_cleanup(url); }
  };
  std::unique_ptr<CURLU, Free> url_;
};

std::string encoded(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  static constexpr std::string_view kRefused = "\"<>\\^`{|}";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte < 0x7f && kRefused.find(c) == kRefused.npos) {
      result += c;
    } else {
      result.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return result;
}

std::string without_fragment(const std::string& url) { return url.substr(0, url.find('#')); }

}  // namespace

std::string sendable(const std::string& url) {
  std::string sent = encoded(without_fragment(url));
  ParsedUrl parsed;
  const bool has_host = sent.find(":///") == std::string::npos;  // libcurl would take the next part as the host
  if (!has_host || !parsed.add(sent) || !parsed.is_web()) fail(ErrorKind::usage, "'{}': expected https://host/name", url);
  if (parsed.has_user()) {
    fail(ErrorKind::usage,
         "'{}': a URL with a name or a password in it is refused, since runs keep copies of their files: put them into ~/.netrc",
         url);
  }
  return sent;
}

std::string resolved(const std::string& base, const std::string& location) {
  if (location.empty()) return {};
  ParsedUrl parsed;
  if (!parsed.add(base) || !parsed.add(encoded(without_fragment(location)))) return {};
  return parsed.is_web() && !parsed.has_user() ? parsed.part(CURLUPART_URL) : std::string();
}

bool is_same_origin(const std::string& one, const std::string& other) {
  ParsedUrl a, b;
  if (!a.add(one) || !b.add(other)) return false;
  return std::ranges::all_of(std::initializer_list<CURLUPart>{CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT},
                             [&](CURLUPart what) { return a.part(what) == b.part(what); });
}

std::string host_of(const std::string& url) {
  ParsedUrl parsed;
  return parsed.add(url) ? parsed.part(CURLUPART_HOST) : std::string();
}

std::string last_part(const std::string& url) {
  const std::size_t authority = url.find("://") + 3;
  const std::size_t end = std::min(url.find_first_of("?#", authority), url.size());
  const std::size_t slash = url.substr(0, end).rfind('/');
  return slash == url.npos || slash < authority ? std::string() : url.substr(slash + 1, end - slash - 1);
}

}  // namespace millrace::http
