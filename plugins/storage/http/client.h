// HTTP requests with redirects, checks and retries.
#pragma once

#include <web/environment.h>
#include <web/http.h>
#include <web/retry.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "millrace/error.h"

namespace millrace::http {

struct Settings {
  web::RetryPolicy retry;            // MILLRACE_HTTP_ATTEMPTS; MILLRACE_HTTP_TIMEOUT: the deadline, in seconds
  web::Milliseconds connect{5'000};  // MILLRACE_HTTP_CONNECT_TIMEOUT, seconds
  web::Milliseconds stall{20'000};   // MILLRACE_HTTP_STALL_TIMEOUT, seconds below 1 kB/s until an attempt is abandoned
  std::string authorities;           // CURL_CA_BUNDLE, SSL_CERT_FILE: a file of certificates; empty: the system's
};

// Throws ErrorKind::usage, naming the variable, for an invalid value.
Settings read_settings(const web::Environment& environment);

// An error that retries cannot fix. Tasks throw this, or Error(storage) to make the client retry.
struct Refusal {
  ErrorKind kind;
  std::string cause;
};

// A request for one URL, repeated until it is done.
class Task {
 public:
  virtual ~Task() = default;
  virtual const char* verb() const = 0;                                          // "read"
  virtual std::vector<std::pair<std::string, std::string>> headers() const = 0;  // headers of the next request
  virtual web::Room place(const web::HttpHead& head) = 0;                        // for a 200 or 206
  // Takes the received bytes, also if the exchange broke. `is_good`: a complete reply with status 200, 206 or 416.
  virtual void take(web::HttpReply& reply, bool is_good) = 0;
  virtual std::uint64_t done() const { return 0; }  // bytes that the next attempt need not request
};

// Thread-safe. Errors name the given URL, the cause, and after retries the number of attempts and their total time.
class Client {
 public:
  explicit Client(Settings settings) : settings_(std::move(settings)) {}

  // Blocks until the task is done, or no attempt made 1 MiB of progress within the deadline and the number of attempts.
  void run(const std::string& url, Task& task);

 private:
  struct Attempt {
    web::HttpReply reply;
    std::string cause;                        // the reason for another attempt; empty if none is needed
    ErrorKind kind = ErrorKind::unreachable;  // the error's kind by default
  };
  Attempt try_once(const std::string& url, Task& task, web::Milliseconds left);
  web::HttpReply follow(web::HttpRequest request, std::string& at);

  Settings settings_;
  web::Http http_;
};

}  // namespace millrace::http
