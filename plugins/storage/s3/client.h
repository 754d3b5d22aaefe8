// Requests to S3, signed, checked, and tried again.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "replies.h"
#include "settings.h"
#include "shared.h"
#include "signer.h"
#include "verdict.h"

namespace millrace::s3 {

// What a reply holds of an object.
struct Part {
  std::uint64_t total = 0;  // bytes of the whole object
  std::size_t bytes = 0;    // of this part
  std::string etag;         // as it came, with its quotes; empty when the server gave none
};

// Thread-safe. Every function blocks until its deadline at most. Errors name the s3:// URL given, the cause, and for
// what was tried again the number of attempts and the time they took.
class Client {
 public:
  // Throws what makes requests impossible: no credentials, a wrong endpoint.
  Client(Settings settings, Environment environment);

  // `one_level`: what lies deeper is summed up in ListPage::folders, unless the server knows no delimiters.
  ListPage list(const std::string& url, const std::string& bucket, const std::string& prefix, const std::string& token,
                bool one_level = false);

  Part stat(const std::string& url);

  // Bytes from `offset` on, `size` or as many as there are; none when the object ends before. `room` is asked for the place of
  // Part::bytes, once for each attempt. An `etag` that is not empty has to be the object's.
  using Room = std::function<std::span<std::uint8_t>(const Part&)>;
  Part read(const std::string& url, std::uint64_t offset, std::size_t size, const std::string& etag, const Room& room,
            const std::stop_token& stop = {});

  // Writing (client_write.cpp). Servers compare each body with the SHA-256 that was signed. A refused ErrorKind::data is not
  // tried again. ETags are without quotes.
  using Bytes = std::span<const std::uint8_t>;
  void put(const std::string& url, Bytes bytes);
  void remove(const std::string& url);
  // An object of several parts: it is there when complete() has returned.
  std::string begin(const std::string& url);                                                                 // the upload's id
  std::string put_part(const std::string& url, const std::string& upload, std::size_t number, Bytes bytes);  // its ETag
  void complete(const std::string& url, const std::string& upload, const std::vector<std::string>& etags);
  void abandon(const std::string& url, const std::string& upload);  // is tried once

  const Settings& settings() const { return settings_; }
  std::string http_url(const ObjectUrl& object) const;  // what is really asked for; names an object among all servers

 private:
  struct Call {
    const char* verb;  // "read"
    const std::string& url;
    ObjectUrl object;
    Query query = {};
    bool head = false;
    std::string method = {};  // instead of GET and HEAD: it writes
    Bytes body = {};
    bool once = false;  // is not tried again
    bool ranged = false;
    Headers headers = {};
    Place place = {};
    std::stop_token stop = {};
    std::string body_hash = {};                        // computed by send(), once for all attempts
    std::function<void(const HttpReply&)> check = {};  // throws ErrorKind::storage when the reply cannot be used
  };
  struct Attempt {
    HttpReply reply;
    Verdict verdict;
  };
  HttpReply send(Call call);
  Attempt try_once(const Call& call, const Credentials& credentials, Milliseconds left);
  HttpRequest prepare(const Call& call, const Credentials& credentials, Milliseconds left) const;
  [[noreturn]] static void give_up(const Call& call, const Retry& retry, const Verdict& verdict);

  Credentials credentials();
  bool renew(const Credentials& used);

  Settings settings_;
  Environment environment_;
  Endpoint endpoint_;
  Http http_;
  std::mutex mutex_;
  Credentials credentials_;  // under mutex_
};

}  // namespace millrace::s3
