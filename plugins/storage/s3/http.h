// One HTTP exchange at a time, through libcurl.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "retry.h"

namespace millrace::s3 {

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case

  std::string_view header(std::string_view name) const;  // empty when there is none
};

// Called when the head of a 200 or 206 has come: where the body's bytes go, exactly as many as there is room for. Refuses the
// reply by throwing.
using Place = std::function<std::span<std::uint8_t>(const HttpHead&)>;

struct HttpRequest {
  bool head = false;  // HEAD instead of GET
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string authorities;                      // a file of certificates to trust; empty: the system's
  Milliseconds connect{0}, stall{0}, total{0};  // time limits
  Place place;                                  // without: bodies go to HttpReply::text
  std::stop_token stop;                         // asked for about once a second
};

struct HttpReply {
  HttpHead head;
  std::string text;
  Milliseconds retry_after{0};
  std::string broken;       // why the exchange did not come to its end; empty when it did
  bool can_recover = true;  // of a broken one: false for what no repetition cures, such as a certificate that is not trusted
};

// Keeps connections open for the next exchange. Thread-safe: each exchange under way has a connection of its own.
class Http {
 public:
  Http();
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  HttpReply perform(const HttpRequest& request);  // rethrows what `place` throws

 private:
  class Transfer;
  class Lease;
  std::mutex mutex_;
  std::vector<void*> idle_;  // curl handles; the last used one goes first
};

}  // namespace millrace::s3
