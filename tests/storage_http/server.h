// The test server (http_server.py) as a child process.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "storage_s3/server.h"

namespace millrace::http::test {

using s3::test::Child;
using s3::test::content;
using s3::test::TemporaryFolder;
using s3::test::Variables;

class WebServer {
 public:
  // Throws std::runtime_error if it does not start. `certificate`: a PEM file with a key and its certificate, for https.
  explicit WebServer(const std::filesystem::path& root, const std::string& certificate = "");

  std::string operator/(const std::string& path) const { return url_ + "/" + path; }
  const std::string& url() const { return url_; }  // "http://127.0.0.1:1234"
  int requests() const;                            // so far, over http

 private:
  Child child_;
  std::string url_;
};

void put(const std::filesystem::path& file, const std::string& content);
std::string sha256(const std::string& bytes);

}  // namespace millrace::http::test
