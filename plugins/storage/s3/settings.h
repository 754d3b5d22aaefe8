// Settings of S3 from the environment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "credentials.h"
#include "shared.h"

namespace millrace::s3 {

struct Settings {
  std::string endpoint;                       // AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL; empty: AWS itself
  std::string region = "us-east-1";           // AWS_REGION, AWS_DEFAULT_REGION
  std::string authorities;                    // AWS_CA_BUNDLE: a file of certificates to trust; empty: the system's
  RetryPolicy retry;                          // MILLRACE_S3_ATTEMPTS; MILLRACE_S3_TIMEOUT: the deadline, in seconds
  Milliseconds connect{5'000};                // MILLRACE_S3_CONNECT_TIMEOUT, seconds
  Milliseconds stall{20'000};                 // MILLRACE_S3_STALL_TIMEOUT, seconds below 1 kB/s until an attempt is abandoned
  std::size_t part = 16 << 20;                // MILLRACE_S3_PART: larger reads are split into ranges of this size
  unsigned parallel = 4;                      // MILLRACE_S3_PARALLEL: simultaneous ranges of one read
  std::string cache;                          // MILLRACE_S3_CACHE: a folder; empty if none
  std::uint64_t cache_size = 10'000'000'000;  // MILLRACE_S3_CACHE_SIZE: "500 MB", "10 GB", "8 GiB"
};

// Throws ErrorKind::usage, naming the variable, for an invalid value.
Settings read_settings(const Environment& environment);

}  // namespace millrace::s3
