// Single HTTP exchanges through libcurl.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "retry.h"

namespace millrace::web {

// How far an address reaches, nearest first. Redirects must not lead to nearer addresses.
enum class Reach {
  link,     // 169.254.0.0/16 and fe80::/10, where cloud machines have services that issue keys
  network,  // this machine, and private networks
  world,
};
std::optional<Reach> reach_of(const std::string& host);  // for a numeric address; a name has none
std::string refused_redirect(Reach to);                  // the error text

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case

  std::string_view header(std::string_view name) const;  // empty if missing
};

// Destination of a body: exactly as many bytes as it has room for.
struct Room {
  Room(std::span<std::uint8_t> bytes) : to(bytes) {}  // NOLINT(google-explicit-constructor): the usual case

  std::span<std::uint8_t> to;
  std::uint64_t skip = 0;  // number of bytes of the body to drop first
  bool cut = false;        // the body may continue: the exchange ends there, and is complete
  bool is_text = false;    // the body goes to HttpReply::text instead, and `to` is empty
};

// Called with the head of a 200 or 206. Throws to refuse the reply.
using Place = std::function<Room(const HttpHead&)>;

// An exchange that moves fewer bytes in this time is aborted. Time 0: no limit.
struct Progress {
  std::uint64_t bytes = 0;
  Milliseconds time{0};
};

struct HttpRequest {
  bool head = false;                   // HEAD instead of GET
  std::string method;                  // overrides both: PUT, POST or DELETE
  std::span<const std::uint8_t> body;  // for PUT and POST. REQUIRES: outlives the exchange
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string authorities;                      // a file of certificates to trust; empty: the system's
  bool use_netrc = false;                       // name and password for the host may come from ~/.netrc
  Reach nearest = Reach::link;                  // nearer addresses are refused, as redirects
  Milliseconds connect{0}, stall{0}, total{0};  // time limits; total 0: no total limit
  Progress progress;
  Place place;                          // if empty, bodies go to HttpReply::text
  std::size_t longest_text = 32 << 20;  // limit of HttpReply::text, in bytes
  std::stop_token stop;                 // checked about once a second
};

struct HttpReply {
  HttpHead head;
  std::string text;
  std::size_t received = 0;  // bytes stored in the room of `place`; valid even if the exchange is broken
  Milliseconds retry_after{0};
  Reach from = Reach::link;  // reach of the peer's address, which may be a proxy's; Reach::link if there was none
  std::string broken;        // why the exchange failed; empty on success
  bool can_recover = true;   // false if a retry cannot help, such as for an untrusted certificate
};

// Keeps connections open for the next exchange. Thread-safe: each active exchange has its own connection.
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
  std::vector<void*> idle_;  // curl handles; the last used one is reused first
};

}  // namespace millrace::web
