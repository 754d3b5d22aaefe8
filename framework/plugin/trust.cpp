#include "plugin/trust.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

#include "millrace/error.h"

namespace millrace {
namespace {

std::string refused(const std::filesystem::path& path, const std::string& found, const std::string& mend) {
  return fmt::format("'{}' is not trusted, since {}: {}, or set MILLRACE_PLUGIN_TRUST=any to load plugins anyway", path.string(),
                     found, mend);
}

std::filesystem::path real_path(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::canonical(path, error);  // "" if it does not exist
}

// Users who may write the framework's library, if `path` came with it.
struct Writers {
  std::optional<uid_t> owner = {};
  std::optional<gid_t> group = {};
};
Writers writers_of_program(const std::filesystem::path& path, const std::filesystem::path& library) {
  const std::filesystem::path own = real_path(own_plugin_folder(library)), file = real_path(path);
  struct stat state {};
  const bool came_with_it = !own.empty() && std::ranges::mismatch(own, file).in1 == own.end();
  if (!came_with_it || ::stat(library.c_str(), &state) != 0) return {};
  const bool by_group = (state.st_mode & S_IWGRP) != 0 && (state.st_mode & S_ISVTX) == 0;
  return {state.st_uid, by_group ? std::optional(state.st_gid) : std::nullopt};
}

// `sticky`: others may create files in it, as in /tmp, but must not be able to replace existing ones.
std::string distrust_itself(const std::filesystem::path& path, bool sticky, const Writers& program) {
  struct stat state {};
  if (::stat(path.c_str(), &state) != 0) return {};  // opening it will report the cause
  if (state.st_uid != 0 && state.st_uid != ::geteuid() && program.owner != state.st_uid) {
    return refused(path, fmt::format("user {} owns it", state.st_uid), fmt::format("make it yours (chown {})", ::geteuid()));
  }
  if (sticky && (state.st_mode & S_ISVTX) != 0) return {};
  if ((state.st_mode & S_IWOTH) != 0) {
    return refused(path, fmt::format("every user may write it (mode {:04o})", state.st_mode & 07777),
                   "take that away (chmod o-w)");
  }
  if ((state.st_mode & S_IWGRP) != 0 && state.st_gid != ::getegid() && program.group != state.st_gid) {
    return refused(path, fmt::format("group {} may write it (mode {:04o})", state.st_gid, state.st_mode & 07777),
                   "take that away (chmod g-w)");
  }
  return {};
}

// A user who may write a parent folder can replace everything below it.
std::string distrust_way_to(const std::filesystem::path& path) {
  for (std::filesystem::path folder = real_path(path); !folder.empty(); folder = folder.parent_path()) {
    struct stat state {};
    if (::stat(folder.c_str(), &state) == 0 && (state.st_mode & S_IWOTH) != 0 && (state.st_mode & S_ISVTX) == 0) {
      return refused(folder, fmt::format("every user may write it (mode {:04o})", state.st_mode & 07777),
                     "take that away (chmod o-w)");
    }
    if (folder == folder.parent_path()) break;
  }
  return {};
}

}  // namespace

std::string distrust(const std::filesystem::path& path, const std::filesystem::path& library) {
  const char* const variable = std::getenv("MILLRACE_PLUGIN_TRUST");
  const std::string_view trust = variable == nullptr ? "" : variable;
  if (trust == "any") return {};
  if (!trust.empty()) fail(ErrorKind::usage, "MILLRACE_PLUGIN_TRUST = '{}': expected any, or nothing", trust);
  std::string reason = distrust_itself(path, false, writers_of_program(path, library));
  if (reason.empty()) reason = distrust_way_to(path.has_parent_path() ? path.parent_path() : ".");
  std::error_code ignored;
  if (!reason.empty() || !std::filesystem::is_symlink(path, ignored)) return reason;
  const std::filesystem::path folder = real_path(path).parent_path();  // of the link's target
  reason = distrust_itself(folder, true, writers_of_program(folder, library));
  return reason.empty() ? distrust_way_to(folder) : reason;
}

}  // namespace millrace
