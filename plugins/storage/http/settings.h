// What the environment says about http and https.
#pragma once

#include <web/environment.h>
#include <web/retry.h>

#include <string>

namespace millrace::http {

struct Settings {
  web::RetryPolicy retry;            // MILLRACE_HTTP_ATTEMPTS; MILLRACE_HTTP_TIMEOUT: the deadline, in seconds
  web::Milliseconds connect{5'000};  // MILLRACE_HTTP_CONNECT_TIMEOUT, seconds
  web::Milliseconds stall{20'000};   // MILLRACE_HTTP_STALL_TIMEOUT, seconds: an attempt this long below 1 kB/s is given up
  std::string authorities;           // CURL_CA_BUNDLE, SSL_CERT_FILE: a file of certificates; empty: the system's
};

// Throws ErrorKind::usage, naming the variable, for a value that is none.
Settings read_settings(const web::Environment& environment);

}  // namespace millrace::http
