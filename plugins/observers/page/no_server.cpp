// For builds without libmicrohttpd.
#include "millrace/error.h"
#include "server.h"

namespace millrace::page {

class Server::Loop {};

Server::Server(const Setting& setting, Source) {
  fail(ErrorKind::usage,
       "observe.page.address = '{}': this build has no server: libmicrohttpd was missing (Debian: libmicrohttpd-dev)",
       setting.address);
}
Server::~Server() = default;
std::string Server::url() const { return {}; }
void Server::close() {}

}  // namespace millrace::page
