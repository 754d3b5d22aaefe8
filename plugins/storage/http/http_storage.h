#pragma once

#include <memory>
#include <mutex>

#include "client.h"
#include "millrace/sample.h"
#include "millrace/storage.h"

namespace millrace::http {

// Files of web servers with URLs http://host/name or https://host/name.
//
//   [network]
//   weights = "https://download.pytorch.org/models/resnet18-f37072fd.pth"
//
// Settings come from the environment, at the first call:
//
//   MILLRACE_HTTP_TIMEOUT                           seconds without 1 MiB of progress until a read is abandoned (120)
//   MILLRACE_HTTP_ATTEMPTS                          attempts that may fail in a row (10)
//   MILLRACE_HTTP_CONNECT_TIMEOUT, _STALL_TIMEOUT   seconds for connecting (5), below 1 kB/s before an attempt is abandoned (20)
//   CURL_CA_BUNDLE, SSL_CERT_FILE                   certificates that https trusts; default: the system's
//   http_proxy, https_proxy, all_proxy, no_proxy    proxies, as in libcurl
//
// A name and a password for a host come from ~/.netrc. A URL that holds them is refused.
// Redirects: at most five, to any host, but not from https to http, nor to an address of less reach (web::Reach). A password is
// sent only to the URL's host. Network and server faults are retried after a pause; bytes already read are kept if the server
// supports ranges. Refusals (401, 403, 404) are not retried. One read never mixes two versions of a file. Version of a file: its
// ETag, or else its Last-Modified date; empty if the server sends neither. Threading: thread-safe; each active read uses its own
// connection, which later reads reuse.
class HttpStorage final : public Storage {
 public:
  explicit HttpStorage(web::Environment environment = web::process_environment);
  ~HttpStorage() override;

  Kind kind(const std::string& url) override;  // sends no request
  // Throws ErrorKind::usage: web servers cannot list folders.
  void list(const std::string& url, const std::function<void(Object)>& found) override;
  Object stat(const std::string& url) override;
  void read(const std::string& url, ByteBuffer& out) override;
  void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override;

 private:
  Client& client();  // created at the first call

  web::Environment environment_;
  std::mutex mutex_;
  std::unique_ptr<Client> client_;  // guarded by mutex_ until set
};

}  // namespace millrace::http
