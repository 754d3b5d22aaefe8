#include "plugin/trust.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace millrace {
namespace {

std::string refused(const std::filesystem::path& path, const std::string& found, const std::string& mend) {
  return fmt::format("'{}' is not trusted, since {}: {}, or set MILLRACE_PLUGIN_TRUST=any to load plugins all the same",
                     path.string(), found, mend);
}

}  // namespace

std::string distrust(const std::filesystem::path& path) {
  const char* const trust = std::getenv("MILLRACE_PLUGIN_TRUST");
  if (trust != nullptr && std::string_view(trust) == "any") return {};
  struct stat state {};
  if (::stat(path.c_str(), &state) != 0) return {};  // who opens it says why not
  if (state.st_uid != 0 && state.st_uid != ::geteuid()) {
    return refused(path, fmt::format("user {} owns it", state.st_uid), fmt::format("make it yours (chown {})", ::geteuid()));
  }
  if ((state.st_mode & S_IWOTH) != 0) {
    return refused(path, fmt::format("every user may write it (mode {:04o})", state.st_mode & 07777),
                   "take that away (chmod o-w)");
  }
  if ((state.st_mode & S_IWGRP) != 0 && state.st_gid != ::getegid()) {
    return refused(path, fmt::format("group {} may write it (mode {:04o})", state.st_gid, state.st_mode & 07777),
                   "take that away (chmod g-w)");
  }
  return {};
}

}  // namespace millrace
