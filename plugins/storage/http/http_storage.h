#pragma once

#include <memory>
#include <mutex>

#include "client.h"
#include "millrace/sample.h"
#include "millrace/storage.h"

namespace millrace::http {

// Files of web servers, named by their URLs, http://host/name or https://host/name.
//
//   [network]
//   weights = "https://download.pytorch.org/models/resnet18-f37072fd.pth"
//
// Settings come from the environment, at the first call:
//
//   MILLRACE_HTTP_TIMEOUT                           seconds until a read is given up that no attempt brings on by 1 MiB (120)
//   MILLRACE_HTTP_ATTEMPTS                          so many of which may fail in a row (10)
//   MILLRACE_HTTP_CONNECT_TIMEOUT, _STALL_TIMEOUT   seconds for connecting (5), below 1 kB/s before an attempt is given up (20)
//   CURL_CA_BUNDLE, SSL_CERT_FILE                   certificates that https trusts; default: the system's
//   http_proxy, https_proxy, all_proxy, no_proxy    proxies, as libcurl reads them
//
// A name and a password for a host come from ~/.netrc. A URL that holds them is refused.
// Redirects: at most five, to any host, but not from https to http. A password goes to the host of the URL alone.
// Faults of the network and of the server are tried again, after a pause; what was read before is kept where the server answers
// ranges. Refusals (401, 403, 404) are not. One read never mixes two versions of a file.
// Version of a file: its ETag, or else its Last-Modified date; empty where the server gives neither.
// Threading: thread-safe; every read under way has a connection of its own, which the next one takes over.
class HttpStorage final : public Storage {
 public:
  explicit HttpStorage(web::Environment environment = web::process_environment);
  ~HttpStorage() override;

  Kind look(const std::string& url) override;  // asks no server
  // Throws ErrorKind::usage: a web server has no folders that it could list.
  void list(const std::string& url, const std::function<void(Object)>& found) override;
  Object stat(const std::string& url) override;
  void read(const std::string& url, ByteBuffer& out) override;
  void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override;

 private:
  Client& client();  // made at the first call

  web::Environment environment_;
  std::mutex mutex_;
  std::unique_ptr<Client> client_;  // under mutex_ until it is there
};

}  // namespace millrace::http
