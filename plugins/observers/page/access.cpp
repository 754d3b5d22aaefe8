#include "access.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "address.h"
#include "millrace/error.h"
#include "millrace/util/text.h"

namespace millrace::page {
namespace {

std::string name_of_this_machine() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? lower_case(name.data()) : std::string();
}

}  // namespace

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail(ErrorKind::run, "no random token for the page: {}", std::strerror(errno));
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::string_view host_of(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(1, authority.find(']') - 1);
  return authority.substr(0, authority.rfind(':'));
}

Access::Access(Setting setting) : setting_(std::move(setting)) {
  for (std::string& name : setting_.names) name = lower_case(name);  // host names compare in lower case
}

// Also "name.domain" if the machine is called "name".
bool Access::names_this_machine(std::string_view authority) const {
  const std::string host = lower_case(host_of(authority));
  if (host == "localhost" || is_ip(host)) return true;
  if (std::ranges::find(setting_.names, host) != setting_.names.end()) return true;
  const std::string own = name_of_this_machine();
  return !setting_.loopback && !own.empty() && (host == own || host.starts_with(own + "."));
}

bool Access::has_token(std::string_view token) const {
  if (token.size() != setting_.token.size() || token.empty()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < token.size(); ++i) different |= static_cast<unsigned char>(token[i] ^ setting_.token[i]);
  return different == 0;
}

std::string Access::refusal(const Claims& claims, bool asks) const {
  if (!names_this_machine(claims.host)) {
    return fmt::format("this page accepts only the addresses of its machine, not the name '{}'; add names to observe.page.hosts",
                       shown(claims.host));
  }
  if (!claims.origin.empty() && claims.origin != fmt::format("http://{}", claims.host)) {
    return fmt::format("a page of '{}' may not access this run", shown(claims.origin));
  }
  if ((asks || !setting_.loopback) && !has_token(claims.token)) {
    return "the token is missing or wrong: open the address printed by the run";
  }
  if (asks && claims.origin.empty()) return "only the run's own page may request this: the header Origin is missing";
  return {};
}

}  // namespace millrace::page
