#include "util/secrets.h"

#include <algorithm>
#include <string_view>

#include "millrace/util/text.h"

namespace millrace {
namespace {

constexpr std::string_view kMask = "***";
constexpr std::string_view kEnds = " \t\r\n\"'<>`";  // braces and bars occur in URLs

bool is_secret(std::string_view parameter) {
  std::string name = lower_case(parameter);
  std::ranges::replace(name, '-', '_');
  for (const std::string_view whole : {"key", "sig", "auth", "authorization", "pass", "passwd", "passphrase", "pwd", "jwt",
                                       "policy", "code", "ticket", "session", "sid", "hmac"}) {
    if (name == whole) return true;
  }
  if (name.ends_with("_key")) return true;
  for (const std::string_view part : {"token", "signature", "password", "secret", "credential", "apikey", "api_key", "accesskey",
                                      "access_key", "hdnts", "hdnea", "hdntl"}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

// [begin, end): the part between "://" and the path. Returns by how much the text grew.
std::ptrdiff_t mask_user(std::string& text, std::size_t begin, std::size_t end) {
  const std::size_t at = text.rfind('@', end - 1);
  if (begin == end || at == std::string::npos || at < begin) return 0;
  const std::size_t colon = text.find(':', begin);
  const std::size_t first = colon < at ? colon + 1 : begin;
  text.replace(first, at - first, kMask);
  return static_cast<std::ptrdiff_t>(kMask.size()) - static_cast<std::ptrdiff_t>(at - first);
}

// From the '?' on; `end`: the URL's end. Returns its new end.
std::size_t mask_parameters(std::string& text, std::size_t begin, std::size_t end) {
  for (std::size_t name = begin + 1; name < end;) {
    std::size_t next = std::min(text.find('&', name), end);
    const std::size_t equals = text.find('=', name);
    if (equals < next && equals + 1 < next && is_secret(std::string_view(text).substr(name, equals - name))) {
      text.replace(equals + 1, next - equals - 1, kMask);
      const std::size_t now = equals + 1 + kMask.size();
      end = end - next + now;
      next = now;
    }
    name = next + 1;
  }
  return end;
}

}  // namespace

std::string without_secrets(std::string text) {
  constexpr std::string_view kScheme = "://";
  for (std::size_t at = text.find(kScheme); at != std::string::npos; at = text.find(kScheme, at)) {
    at += kScheme.size();
    std::size_t end = std::min(text.find_first_of(kEnds, at), text.size());
    const std::size_t path = std::min(text.find_first_of("/?#", at), end);
    end = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(end) + mask_user(text, at, path));
    const std::size_t query = text.find('?', at);
    if (query < end) end = mask_parameters(text, query, end);
    at = end;
  }
  return text;
}

}  // namespace millrace
