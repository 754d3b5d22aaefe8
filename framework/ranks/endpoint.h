// Addresses of the network, and stream sockets to them. Version 4 and 6 of the protocol alike.
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

std::string host_name();  // what this host calls itself

// The addresses of "host:port" or "[fd00::1]:29500". Empty when the name is not known at present: then `why` is the resolver's
// message. Throws Error(usage) for a text of another form.
std::vector<Endpoint> resolve(const std::string& text, std::string& why);
Endpoint numeric_endpoint(const std::string& host, int port);  // length 0: `host` is no address

// This host's addresses in the network that `interface` names: "eth0", "10.1.0.0/16"; "": all but those of the loopback, or that
// where there is no other. Throws Error(usage) where none is in it.
std::vector<std::string> own_addresses(const std::string& interface);

// Port 0: any. `address`: "" is every one of this host's. Throws Error(run), or Error(usage) for a port that is in use.
Socket listen_at(const std::string& address, int port);
Endpoint local_endpoint(const Socket& socket);
Endpoint remote_endpoint(const Socket& socket);

// None: `why` says what the system said.
Socket connect_to(const Endpoint& to, std::chrono::milliseconds patience, std::string& why);

// A connection between ranks: small messages leave at once, and a host that is cut off is noticed within some 10 seconds even
// while no data are sent.
void prepare_connection(const Socket& socket);

// False: the other end is gone, or silent for `patience`. Sockets may block or not.
bool read_all(const Socket& socket, void* bytes, std::size_t count, std::chrono::milliseconds patience);
bool write_all(const Socket& socket, const void* bytes, std::size_t count, std::chrono::milliseconds patience);

}  // namespace millrace
