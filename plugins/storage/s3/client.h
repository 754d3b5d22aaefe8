// Signed S3 requests with checks and retries.
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

// The part of an object in a reply.
struct Part {
  std::uint64_t total = 0;  // size of the whole object
  std::size_t bytes = 0;    // size of this part
  std::string etag;         // as received, with its quotes; empty if the server sent none
};

// Thread-safe. Every function blocks at most until its deadline. Errors name the given s3:// URL, the cause, and after retries
// the number of attempts and their total time.
class Client {
 public:
  // Throws if requests are impossible: no credentials, a wrong endpoint.
  Client(Settings settings, Environment environment);

  // `one_level`: deeper names are summarised in ListPage::folders, unless the server does not support delimiters.
  ListPage list(const std::string& url, const std::string& bucket, const std::string& prefix, const std::string& token,
                bool one_level = false);

  Part stat(const std::string& url);

  // Bytes from `offset` on, `size` or as many as exist; none if the object ends before. `room` returns the place for Part::bytes,
  // once per attempt. If `etag` is not empty, the object must have it.
  using Room = std::function<std::span<std::uint8_t>(const Part&)>;
  Part read(const std::string& url, std::uint64_t offset, std::size_t size, const std::string& etag, const Room& room,
            const std::stop_token& stop = {});

  // Writing. Servers compare each body with the signed SHA-256. A refusal with ErrorKind::data is not retried.
  // ETags are without quotes.
  using Bytes = std::span<const std::uint8_t>;
  void put(const std::string& url, Bytes bytes);
  void remove(const std::string& url);
  // An object of several parts: it exists once complete() returns.
  std::string begin(const std::string& url);                                                                 // the upload's id
  std::string put_part(const std::string& url, const std::string& upload, std::size_t number, Bytes bytes);  // its ETag
  void complete(const std::string& url, const std::string& upload, const std::vector<std::string>& etags);
  void abandon(const std::string& url, const std::string& upload);  // not retried

  const Settings& settings() const { return settings_; }
  std::string http_url(const ObjectUrl& object) const;  // the URL really used; identifies an object among all servers

 private:
  struct Call {
    const char* verb;  // "read"
    const std::string& url;
    ObjectUrl object;
    Query query = {};
    bool head = false;
    std::string method = {};  // for writing, instead of GET and HEAD
    Bytes body = {};
    bool once = false;  // no retries
    bool ranged = false;
    Headers headers = {};
    Place place = {};
    std::stop_token stop = {};
    std::string body_hash = {};                        // computed once by send(), for all attempts
    std::function<void(const HttpReply&)> check = {};  // throws ErrorKind::storage if the reply is unusable
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
  Credentials credentials_;  // guarded by mutex_
};

}  // namespace millrace::s3
