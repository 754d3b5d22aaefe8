// Signature Version 4, as AWS documents it ("Authenticating Requests: Using the Authorization Header" in the S3 API reference).
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

// What is signed. Every header given is; "host" and "x-amz-date" have to be among them.
struct Signable {
  std::string method;
  std::string path;  // encoded, as it is sent
  Query query;
  Headers headers;
  std::string payload_hash;  // SHA-256 of the body, in hexadecimal
};

// The value of the Authorization header.
std::string authorization(const Signable& request, const Credentials& credentials, const SigningScope& scope);

// The headers of a request, signed: host, x-amz-content-sha256, x-amz-date, x-amz-security-token, authorization. The server
// compares the body with `body_hash`, its SHA-256 in hexadecimal; "": there is no body.
Headers sign(const std::string& method, const std::string& host, const std::string& path, const Query& query,
             const Credentials& credentials, const SigningScope& scope, std::chrono::system_clock::time_point now,
             const std::string& body_hash = {});

}  // namespace millrace::s3
