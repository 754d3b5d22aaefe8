// Access control: who may view a run, and who may send it requests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace::page {

// A request's headers and parameters; empty if missing.
struct Claims {
  std::string_view host, origin, token;
};

// The rules:
// - `Host` names this machine: an address, localhost, the machine's own name, or one of `names`. A foreign page whose
//   name was redirected here (DNS rebinding) sends its own name.
// - `Origin`, if a browser sends it, is this page's.
// - Requests to a run need the token. So does viewing it from another machine; on this one viewing is free.
//
// Thread-safe.
class Access {
 public:
  struct Setting {
    bool loopback = true;  // the server listens only on this machine's loopback address
    std::vector<std::string> names;
    std::string token;
  };
  explicit Access(Setting setting);

  // Why the request is refused; "" if it is allowed. `asks`: it changes something.
  std::string refusal(const Claims& claims, bool asks) const;
  bool has_token(std::string_view token) const;  // in constant time
  const std::string& token() const { return setting_.token; }

 private:
  bool names_this_machine(std::string_view host) const;
  Setting setting_;
};

std::string random_token();  // 128 bits; throws Error if the system provides none
// Without its port: "[::1]:80" is "::1".
std::string_view host_of(std::string_view authority);

}  // namespace millrace::page
