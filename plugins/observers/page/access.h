// Who may look at a run, and who may ask it for something.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace::page {

// What a request says of itself. Empty: it has no such header or parameter.
struct Claims {
  std::string_view host, origin, token;
};

// The rules:
// - `Host` names this machine: an address, localhost, the machine's own name, or one of `names`. A page of somebody else's whose
//   name was made to lead here (DNS rebinding) sends its own name.
// - `Origin`, where a browser sends it, is this page's.
// - Who asks a run for something has the token. So has who looks at it from another machine; on this one looking is free.
//
// Thread-safe.
class Access {
 public:
  struct Setting {
    bool loopback = true;  // the server listens on this machine's own address alone
    std::vector<std::string> names;
    std::string token;
  };
  explicit Access(Setting setting);

  // Why the request is refused; "": it is not. `asks`: it wants to change something.
  std::string refusal(const Claims& claims, bool asks) const;
  bool has_token(std::string_view token) const;  // in a time that does not tell how much of it is right
  const std::string& token() const { return setting_.token; }

 private:
  bool names_this_machine(std::string_view host) const;
  Setting setting_;
};

std::string random_token();  // of 128 bits; throws Error where the system gives none
// Without its port: "[::1]:80" is "::1".
std::string_view host_of(std::string_view authority);

}  // namespace millrace::page
