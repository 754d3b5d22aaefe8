// Signature Version 4, documented by AWS ("Authenticating Requests: Using the Authorization Header" in the S3 API reference).
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "credentials.h"
#include "uri.h"

namespace millrace::s3 {

using Headers = std::vector<std::pair<std::string, std::string>>;  // names in lower case

struct SigningScope {
  std::string region;
  std::string service = "s3";
};

// The request to sign. All headers are signed; "host" and "x-amz-date" must be among them.
struct Signable {
  std::string method;
  std::string path;  // encoded, as sent
  Query query;
  Headers headers;
  std::string payload_hash;  // SHA-256 of the body, in hexadecimal
};

// The value of the Authorization header.
std::string authorization(const Signable& request, const Credentials& credentials, const SigningScope& scope);

// The headers of a request, signed: host, x-amz-content-sha256, x-amz-date, x-amz-security-token, authorization. `body_hash`: the
// body's SHA-256 in hexadecimal, which the server verifies; "" without a body.
Headers sign(const std::string& method, const std::string& host, const std::string& path, const Query& query,
             const Credentials& credentials, const SigningScope& scope, std::chrono::system_clock::time_point now,
             const std::string& body_hash = {});

}  // namespace millrace::s3
