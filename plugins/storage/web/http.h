// One HTTP exchange at a time, through libcurl.
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

// How far an address reaches, from the nearest on. Redirects may not lead to nearer places than they come from.
enum class Reach {
  link,     // 169.254.0.0/16 and fe80::/10, where machines of clouds have services that hand out keys
  network,  // this machine, and private networks
  world,
};
std::optional<Reach> reach_of(const std::string& host);  // of an address that is written as numbers; a name has none
std::string refused_redirect(Reach to);                  // what is said of it

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case

  std::string_view header(std::string_view name) const;  // empty when there is none
};

// Where the bytes of a body go: exactly as many as there is room for.
struct Room {
  Room(std::span<std::uint8_t> bytes) : to(bytes) {}  // NOLINT(google-explicit-constructor): the usual case

  std::span<std::uint8_t> to;
  std::uint64_t skip = 0;  // so many bytes of the body come before, and are dropped
  bool cut = false;        // the body may go on after: the exchange ends there, and is whole
  bool is_text = false;    // the body goes to HttpReply::text after all, and `to` is empty
};

// Called when the head of a 200 or 206 has come. Refuses the reply by throwing.
using Place = std::function<Room(const HttpHead&)>;

// An exchange that moves fewer bytes in this time is given up. Time 0: none is.
struct Progress {
  std::uint64_t bytes = 0;
  Milliseconds time{0};
};

struct HttpRequest {
  bool head = false;                   // HEAD instead of GET
  std::string method;                  // instead of both: PUT, POST or DELETE
  std::span<const std::uint8_t> body;  // of PUT and POST. REQUIRES: outlives the exchange
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string authorities;                      // a file of certificates to trust; empty: the system's
  bool use_netrc = false;                       // a name and a password for the host come from ~/.netrc, where it has them
  Reach nearest = Reach::link;                  // addresses that are nearer are refused, in the name of a redirect
  Milliseconds connect{0}, stall{0}, total{0};  // time limits; total 0: none for the whole exchange
  Progress progress;
  Place place;                          // without: bodies go to HttpReply::text
  std::size_t longest_text = 32 << 20;  // bytes of HttpReply::text
  std::stop_token stop;                 // asked for about once a second
};

struct HttpReply {
  HttpHead head;
  std::string text;
  std::size_t received = 0;  // bytes that `place` found room for; they are good also where the exchange is broken
  Milliseconds retry_after{0};
  Reach from = Reach::link;  // of the address that was spoken to, which may be a proxy's; Reach::link also where there was none
  std::string broken;        // why the exchange did not come to its end; empty when it did
  bool can_recover = true;   // of a broken one: false for what no repetition cures, such as a certificate that is not trusted
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

}  // namespace millrace::web
