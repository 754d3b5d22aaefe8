// The address of a server: "127.0.0.1:0", "[::1]:8080", "localhost:8080", "0.0.0.0:8080".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::page {

struct Address {
  std::string host;        // an IP address, without brackets
  std::uint16_t port = 0;  // 0: any free one
  bool is_v6() const { return host.find(':') != std::string::npos; }
  bool is_loopback() const;  // only programs on this machine can reach it
  bool is_any() const { return host == "0.0.0.0" || host == "::"; }
  std::string text() const;  // "[::1]:8080"
};

bool is_ip(const std::string& host);  // version 4 or 6, without brackets

// Throws Error(usage), naming the key.
Address read_address(std::string_view key, std::string_view text);

// A listening socket, which the caller closes; stores the chosen port in `address`. Throws Error(run).
int listen_at(Address& address);

}  // namespace millrace::page
