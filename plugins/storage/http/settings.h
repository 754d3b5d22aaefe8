// Settings of http and https from the environment.
#pragma once

#include <web/environment.h>
#include <web/retry.h>

#include <string>

namespace millrace::http {

struct Settings {
  web::RetryPolicy retry;            // MILLRACE_HTTP_ATTEMPTS; MILLRACE_HTTP_TIMEOUT: the deadline, in seconds
  web::Milliseconds connect{5'000};  // MILLRACE_HTTP_CONNECT_TIMEOUT, seconds
  web::Milliseconds stall{20'000};   // MILLRACE_HTTP_STALL_TIMEOUT, seconds below 1 kB/s until an attempt is abandoned
  std::string authorities;           // CURL_CA_BUNDLE, SSL_CERT_FILE: a file of certificates; empty: the system's
};

// Throws ErrorKind::usage, naming the variable, for an invalid value.
Settings read_settings(const web::Environment& environment);

}  // namespace millrace::http
