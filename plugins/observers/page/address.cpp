#include "address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "millrace/error.h"

namespace millrace::page {
namespace {

constexpr int kWaiting = 64;             // connections not yet accepted
constexpr int kSendBuffer = 256 * 1024;  // bytes that the kernel buffers for a slow reader

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

SocketAddress socket_address(const Address& address) {
  SocketAddress made;
  if (address.is_v6()) {
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&made.bytes);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr);
    made.size = sizeof *v6;
  } else {
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&made.bytes);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr);
    made.size = sizeof *v4;
  }
  return made;
}

}  // namespace

bool is_ip(const std::string& host) {
  in6_addr parsed{};
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1 || inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

bool Address::is_loopback() const { return host.starts_with("127.") || host == "::1"; }
std::string Address::text() const { return is_v6() ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port); }

Address read_address(std::string_view key, std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon), port = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  Address address;
  address.host = host == "localhost" ? "127.0.0.1" : host;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || port.empty() || end != port.data() + port.size() || !is_ip(address.host)) {
    fail(ErrorKind::usage,
         "{} = '{}': expected ADDRESS:PORT, such as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080; port 0 selects a free one", key,
         text);
  }
  return address;
}

int listen_at(Address& address) {
  const auto failed = [&](int file) {
    const int cause = errno;
    if (file >= 0) ::close(file);
    fail(ErrorKind::run, "cannot listen at {}: {}", address.text(), std::strerror(cause));
  };
  SocketAddress wanted = socket_address(address);
  const int file = ::socket(wanted.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) failed(file);
  const int on = 1, off = 0;
  ::setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(file, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  if (address.is_v6()) ::setsockopt(file, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  auto* const bytes = reinterpret_cast<sockaddr*>(&wanted.bytes);
  if (::bind(file, bytes, wanted.size) != 0 || ::listen(file, kWaiting) != 0) failed(file);
  if (::getsockname(file, bytes, &wanted.size) != 0) failed(file);
  address.port = ntohs(address.is_v6() ? reinterpret_cast<sockaddr_in6*>(bytes)->sin6_port
                                       : reinterpret_cast<sockaddr_in*>(bytes)->sin_port);
  return file;
}

}  // namespace millrace::page
