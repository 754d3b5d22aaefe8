#include "http_storage.h"

#include <web/sizes.h>

#include "millrace/error.h"
#include "tasks.h"
#include "url.h"

namespace millrace::http {

HttpStorage::HttpStorage(web::Environment environment) : environment_(std::move(environment)) {}
HttpStorage::~HttpStorage() = default;

Client& HttpStorage::client() {
  const std::lock_guard lock(mutex_);
  if (!client_) client_ = std::make_unique<Client>(read_settings(environment_));
  return *client_;
}

Storage::Kind HttpStorage::kind(const std::string& url) {
  return last_part(sendable(url)).empty() ? Kind::folder : Kind::unknown;
}

void HttpStorage::list(const std::string& url, const std::function<void(Object)>&) {
  sendable(url);
  fail(ErrorKind::usage,
       "cannot list '{}': a web server has no folders; name the files one by one, in a list (read_list) or as shards (read_tar)",
       url);
}

Storage::Object HttpStorage::stat(const std::string& url) {
  Look look;
  client().run(url, look);
  return {last_part(url), look.bytes(), look.version()};
}

void HttpStorage::read(const std::string& url, ByteBuffer& out) {
  Download download([&](std::uint64_t bytes) { return web::room_for_file(out, bytes); });
  client().run(url, download);
}

void HttpStorage::read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) {
  if (size == 0) return;
  Download download(offset, size, out);
  client().run(url, download);
}

}  // namespace millrace::http
