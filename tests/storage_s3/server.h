// The test server (s3_server.py) as a child process, and common parts of the tests of storage "s3".
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "millrace/storage.h"
#include "s3.h"

namespace millrace::s3::test {

// Arguments and environment variables (added to this process's own) of a program. Its standard input ends with the object, and
// the program must end then.
class Child {
 public:
  Child(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  std::string read_line();  // from its standard output; the rest at its end
  int wait();               // exit code

 private:
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
};

// A folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class Server {
 public:
  // Serves `root`, a folder of buckets. Throws std::runtime_error if it does not start. `certificate`: a PEM file with a key and
  // its certificate, for https; empty: http.
  Server(const std::filesystem::path& root, int keys_on_a_page, const std::string& certificate = "");

  const std::string& url() const { return url_; }  // "http://127.0.0.1:1234"
  std::string control(const std::string& path);    // see s3_server.py; over http

 private:
  Child child_;
  std::string url_;
};

bool have_python();  // otherwise tests are skipped

// Puts an object into the server's folder: a file whose name is the encoded key.
void put(const std::filesystem::path& root, const std::string& bucket, const std::string& key, const std::string& content);

std::string content(std::size_t size, unsigned seed);  // bytes without repetition

using Variables = std::map<std::string, std::string>;
Environment environment(Variables variables);      // only these
Variables variables(const std::string& endpoint);  // the test server's account; short timeouts
Variables patient(Variables variables);            // long timeouts for busy machines

std::string read_all(Storage& storage, const std::string& url);

}  // namespace millrace::s3::test
