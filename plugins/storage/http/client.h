// Requests over HTTP: redirected, checked, and tried again.
#pragma once

#include <web/http.h>
#include <web/retry.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "millrace/error.h"
#include "settings.h"

namespace millrace::http {

// Why no repetition helps. What a Task throws beside Error(storage), after which the request is made again.
struct Refusal {
  ErrorKind kind;
  std::string cause;
};

// What is asked of one URL, attempt after attempt, until it is done.
class Task {
 public:
  virtual ~Task() = default;
  virtual const char* verb() const = 0;                                          // "read"
  virtual std::vector<std::pair<std::string, std::string>> headers() const = 0;  // of the next request
  virtual web::Room place(const web::HttpHead& head) = 0;                        // of a 200 or 206
  // What came, also when the exchange broke. `is_good`: it is a whole reply of status 200, 206 or 416.
  virtual void take(web::HttpReply& reply, bool is_good) = 0;
  virtual std::uint64_t done() const { return 0; }  // bytes that the next attempt need not ask for
};

// Thread-safe. Errors name the URL given, the cause, and for what was tried again the number of attempts and the
// time they took.
class Client {
 public:
  explicit Client(Settings settings) : settings_(std::move(settings)) {}

  // Blocks until the task is done, or no attempt has brought it on by 1 MiB within the deadline and the number of attempts.
  void run(const std::string& url, Task& task);

 private:
  struct Attempt {
    web::HttpReply reply;
    std::string cause;                        // why there has to be another; empty: there need not
    ErrorKind kind = ErrorKind::unreachable;  // of the error, when there is no other
  };
  Attempt try_once(const std::string& url, Task& task, web::Milliseconds left);
  web::HttpReply follow(web::HttpRequest request, std::string& at);

  Settings settings_;
  web::Http http_;
};

}  // namespace millrace::http
