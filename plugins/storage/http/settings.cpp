#include "settings.h"

namespace millrace::http {

Settings read_settings(const web::Environment& environment) {
  Settings settings;
  settings.retry.attempts = static_cast<int>(
      web::number(environment, "MILLRACE_HTTP_ATTEMPTS", settings.retry.attempts, 1, 1000, "a number of attempts"));
  settings.retry.deadline = web::seconds(environment, "MILLRACE_HTTP_TIMEOUT", settings.retry.deadline);
  settings.connect = web::seconds(environment, "MILLRACE_HTTP_CONNECT_TIMEOUT", settings.connect);
  settings.stall = web::seconds(environment, "MILLRACE_HTTP_STALL_TIMEOUT", settings.stall);
  settings.authorities = environment("CURL_CA_BUNDLE");
  if (settings.authorities.empty()) settings.authorities = environment("SSL_CERT_FILE");
  return settings;
}

}  // namespace millrace::http
