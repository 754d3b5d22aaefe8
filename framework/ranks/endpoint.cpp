#include "ranks/endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "millrace/error.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

bool set(const Socket& socket, int level, int option, int value) {
  return ::setsockopt(socket.get(), level, option, &value, sizeof value) == 0;
}

// False if `patience` ran out.
bool wait_for(const Socket& socket, short events, steady_clock::time_point end) {
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
    if (left.count() < 0) return false;
    pollfd ready{socket.get(), events, 0};
    const int found = ::poll(&ready, 1, static_cast<int>(left.count()) + 1);
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
  }
}

const std::uint8_t* address_bytes(const Endpoint& of, std::size_t& count) {
  if (of.address.ss_family == AF_INET) {
    count = 4;
    return reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in*>(&of.address)->sin_addr);
  }
  count = 16;
  return reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in6*>(&of.address)->sin6_addr);
}

// "10.1.0.0/16"
bool is_within(const Endpoint& address, const std::string& network) {
  const std::size_t slash = network.find('/');
  const Endpoint first = numeric_endpoint(network.substr(0, slash), 0);
  if (first.length == 0 || first.address.ss_family != address.address.ss_family) return false;
  std::size_t count = 0, bits = 0;
  const std::uint8_t* const mine = address_bytes(address, count);
  const std::uint8_t* const its = address_bytes(first, count);
  const char* const end = network.data() + network.size();
  if (std::from_chars(network.data() + slash + 1, end, bits).ptr != end || bits > count * 8) return false;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    if ((((mine[bit / 8] ^ its[bit / 8]) >> (7 - bit % 8)) & 1U) != 0) return false;
  }
  return true;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this == &other) return *this;
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = other.release();
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string Endpoint::host() const {
  char text[NI_MAXHOST] = "";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  const std::string_view mapped = "::ffff:";
  return std::string_view(text).starts_with(mapped) ? std::string(text + mapped.size()) : std::string(text);
}

int Endpoint::port() const {
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
}

std::string Endpoint::text() const {
  const std::string name = host();
  return name.find(':') == std::string::npos ? fmt::format("{}:{}", name, port()) : fmt::format("[{}]:{}", name, port());
}

std::vector<Endpoint> resolve(const std::string& text, std::string& why) {
  const std::size_t colon = text.rfind(':');
  int port = 0;
  const char* const end = text.data() + text.size();
  if (colon == std::string::npos || colon == 0 || std::from_chars(text.data() + colon + 1, end, port).ptr != end || port < 1 ||
      port > 65'535) {
    fail(ErrorKind::usage, "'{}' is not an address: write it as node-1:29500", text);
  }
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    fail(ErrorKind::usage, "'{}' is not an address: write version 6 with its port as [fd00::1]:29500", text);
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0) {
    why = ::gai_strerror(error);
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::vector<Endpoint> endpoints;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Endpoint endpoint;
    endpoint.length = each->ai_addrlen;
    std::memcpy(&endpoint.address, each->ai_addr, each->ai_addrlen);
    endpoints.push_back(endpoint);
  }
  return endpoints;
}

Endpoint numeric_endpoint(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  Endpoint endpoint;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return endpoint;
  endpoint.length = found->ai_addrlen;
  std::memcpy(&endpoint.address, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return endpoint;
}

std::vector<std::string> own_addresses(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) fail(ErrorKind::run, "this host's addresses cannot be read: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<std::string> addresses, loopback, names;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Endpoint endpoint;
    endpoint.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&endpoint.address, each->ifa_addr, endpoint.length);
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&endpoint.address)->sin6_addr))
      continue;
    names.push_back(fmt::format("{} ({})", each->ifa_name, endpoint.host()));
    const bool is_meant = interface.empty()                          ? true
                          : interface.find('/') != std::string::npos ? is_within(endpoint, interface)
                                                                     : interface == each->ifa_name;
    if (!is_meant) continue;
    const bool is_loopback = (each->ifa_flags & IFF_LOOPBACK) != 0;
    (is_loopback && interface.empty() ? loopback : addresses).push_back(endpoint.host());
  }
  if (addresses.empty()) addresses = loopback;
  if (names.empty()) fail(ErrorKind::run, "this host has no network: not even its loopback interface is up");
  if (addresses.empty()) {
    fail(ErrorKind::usage, "this host has no address in '{}'; it has {}", interface, fmt::join(names, ", "));
  }
  return addresses;
}

Socket listen_at(const std::string& address, int port) {
  Endpoint at = numeric_endpoint(address.empty() ? "::" : address, port);
  Socket socket(::socket(at.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket && address.empty()) {  // a host without IPv6
    at = numeric_endpoint("0.0.0.0", port);
    socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }
  if (!socket) fail(ErrorKind::run, "no socket can be made: {}", std::strerror(errno));
  if (at.address.ss_family == AF_INET6) set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at.address), at.length) != 0 || ::listen(socket.get(), 4096) != 0) {
    fail(errno == EADDRINUSE ? ErrorKind::usage : ErrorKind::run, "cannot listen on port {} of this host: {}", port,
         std::strerror(errno));
  }
  return socket;
}

Endpoint local_endpoint(const Socket& socket) {
  Endpoint endpoint;
  endpoint.length = sizeof endpoint.address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.length) != 0) endpoint.length = 0;
  return endpoint;
}

Endpoint remote_endpoint(const Socket& socket) {
  Endpoint endpoint;
  endpoint.length = sizeof endpoint.address;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.length) != 0) endpoint.length = 0;
  return endpoint;
}

Socket connect_to(const Endpoint& to, milliseconds patience, std::string& why) {
  Socket socket(::socket(to.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = socket ? 0 : errno;
  if (socket && ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to.address), to.length) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      socklen_t length = sizeof error;
      error = ETIMEDOUT;
      if (wait_for(socket, POLLOUT, steady_clock::now() + patience)) {
        ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      }
    }
  }
  if (error == 0) return socket;
  why = std::strerror(error);
  return {};
}

void prepare_connection(const Socket& socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

bool read_all(const Socket& socket, void* bytes, std::size_t count, milliseconds patience) {
  const auto end = steady_clock::now() + patience;
  auto* at = static_cast<char*>(bytes);
  while (count > 0) {
    if (!wait_for(socket, POLLIN, end)) return false;
    const ssize_t got = ::recv(socket.get(), at, count, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return false;
    at += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(const Socket& socket, const void* bytes, std::size_t count, milliseconds patience) {
  const auto end = steady_clock::now() + patience;
  const auto* at = static_cast<const char*>(bytes);
  while (count > 0) {
    if (!wait_for(socket, POLLOUT, end)) return false;
    const ssize_t sent = ::send(socket.get(), at, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0) return false;
    at += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace millrace
