// Network addresses and stream sockets, for IPv4 and IPv6.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace millrace {

// Owns a file descriptor; -1: none.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  explicit operator bool() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

struct Endpoint {
  sockaddr_storage address = {};
  socklen_t length = 0;

  std::string text() const;  // "10.0.0.1:29500", "[fd00::1]:29500"
  std::string host() const;  // "10.0.0.1"
  int port() const;
};

std::string host_name();  // this host's name

// The addresses of "host:port" or "[fd00::1]:29500". Empty if the name cannot be resolved now: `why` is the resolver's message.
// Throws Error(usage) for other forms.
std::vector<Endpoint> resolve(const std::string& text, std::string& why);
Endpoint numeric_endpoint(const std::string& host, int port);  // length 0 if `host` is not an address

// This host's addresses in the network `interface`: "eth0" or "10.1.0.0/16"; "": all except loopback, or loopback if it is alone.
// Throws Error(usage) if there is none.
std::vector<std::string> own_addresses(const std::string& interface);

// Port 0: any. `address` "": all of this host's. Throws Error(run), or Error(usage) for a port in use.
Socket listen_at(const std::string& address, int port);
Endpoint local_endpoint(const Socket& socket);
Endpoint remote_endpoint(const Socket& socket);

// Empty on failure: `why` is the system's message.
Socket connect_to(const Endpoint& to, std::chrono::milliseconds patience, std::string& why);

// A connection between ranks: sends small messages at once, and detects a disconnected host within about 10 seconds, even
// without traffic.
void prepare_connection(const Socket& socket);

// False if the other end is gone, or silent for `patience`. Sockets may block or not.
bool read_all(const Socket& socket, void* bytes, std::size_t count, std::chrono::milliseconds patience);
bool write_all(const Socket& socket, const void* bytes, std::size_t count, std::chrono::milliseconds patience);

}  // namespace millrace
