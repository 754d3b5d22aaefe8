#include "server.h"

#include <web/http.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "millrace/util/bytes.h"
#include "millrace/util/sha256.h"

namespace millrace::http::test {

namespace {

std::vector<std::string> command(const std::filesystem::path& root, const std::string& certificate) {
  std::vector<std::string> words = {MILLRACE_PYTHON, MILLRACE_SOURCE_DIR "/tests/storage_http/http_server.py", root.string()};
  if (!certificate.empty()) words.push_back(certificate);
  return words;
}

}  // namespace

WebServer::WebServer(const std::filesystem::path& root, const std::string& certificate)
    : child_(command(root, certificate), {{"PYTHONDONTWRITEBYTECODE", "1"}}) {
  const std::string line = child_.read_line();
  if (!line.starts_with("listening on ")) throw std::runtime_error("the test server does not start: " + line);
  url_ = (certificate.empty() ? "http://127.0.0.1:" : "https://127.0.0.1:") + line.substr(13);
  setenv("no_proxy", "127.0.0.1,localhost", 1);  // NOLINT(concurrency-mt-unsafe): before there are threads
}

int WebServer::requests() const {
  web::HttpRequest request;
  request.url = url_ + "/control/requests";
  request.connect = request.stall = request.total = web::Milliseconds(30'000);
  const web::HttpReply reply = web::Http().perform(request);
  if (!reply.broken.empty()) throw std::runtime_error(reply.broken);
  return std::stoi(reply.text);
}

void put(const std::filesystem::path& file, const std::string& content) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
}

std::string sha256(const std::string& bytes) { return hex_text(millrace::sha256(bytes)); }

}  // namespace millrace::http::test
