#include "settings.h"

#include "millrace/error.h"
#include "millrace/util/bytes.h"

namespace millrace::s3 {

namespace {

std::string first_of(const Environment& environment, const char* one, const char* other) {
  const std::string value = environment(one);
  return value.empty() ? environment(other) : value;
}

std::uint64_t size(const Environment& environment, const char* name, std::uint64_t otherwise) {
  const std::string text = environment(name);
  if (text.empty()) return otherwise;
  const std::uint64_t value = parse_bytes(text);
  if (value == 0) fail(ErrorKind::usage, "{} = '{}': expected a size such as 10GB", name, text);
  return value;
}

}  // namespace

Settings read_settings(const Environment& environment) {
  Settings settings;
  settings.endpoint = first_of(environment, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
  const std::string region = first_of(environment, "AWS_REGION", "AWS_DEFAULT_REGION");
  if (!region.empty()) settings.region = region;
  if (settings.region.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") !=
      std::string::npos) {
    fail(ErrorKind::usage, "AWS_REGION = '{}': expected a region's name, such as us-east-1", settings.region);
  }
  settings.authorities = environment("AWS_CA_BUNDLE");
  RetryPolicy& retry = settings.retry;
  retry.attempts =
      static_cast<int>(web::number(environment, "MILLRACE_S3_ATTEMPTS", retry.attempts, 1, 1000, "a number of attempts"));
  retry.deadline = web::seconds(environment, "MILLRACE_S3_TIMEOUT", retry.deadline);
  settings.connect = web::seconds(environment, "MILLRACE_S3_CONNECT_TIMEOUT", settings.connect);
  settings.stall = web::seconds(environment, "MILLRACE_S3_STALL_TIMEOUT", settings.stall);
  settings.part = size(environment, "MILLRACE_S3_PART", settings.part);
  settings.parallel =
      static_cast<unsigned>(web::number(environment, "MILLRACE_S3_PARALLEL", settings.parallel, 1, 64, "a number of requests"));
  settings.cache = environment("MILLRACE_S3_CACHE");
  if (!settings.cache.empty() && settings.cache.front() != '/')
    fail(ErrorKind::usage, "MILLRACE_S3_CACHE = '{}': expected an absolute path, which is the same in every folder",
         settings.cache);
  settings.cache_size = size(environment, "MILLRACE_S3_CACHE_SIZE", settings.cache_size);
  return settings;
}

}  // namespace millrace::s3
