#include "file_claim.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "millrace/error.h"

namespace millrace {
namespace {

// The files of all caches in all runs of this process.
struct Claims {
  std::mutex mutex;
  std::map<std::pair<const RunServices*, std::filesystem::path>, std::string> places;  // each cache's place in its pipeline
};

Claims& claims() {
  static Claims all;
  return all;
}

std::filesystem::path place_of(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path found = std::filesystem::weakly_canonical(path, error);
  return error ? path : found;
}

}  // namespace

FileClaim::FileClaim(const std::filesystem::path& path, const StageSite& site) : path_(place_of(path)), run_(site.run) {
  const std::lock_guard lock(claims().mutex);
  const auto [found, is_new] = claims().places.try_emplace({run_, path_}, fmt::format("[{}.{}]", site.graph, site.name));
  if (is_new) return;
  fail(ErrorKind::usage, "file: '{}' is that of {} too: give each cache a file of its own", path.string(), found->second);
}

FileClaim::~FileClaim() {
  const std::lock_guard lock(claims().mutex);
  claims().places.erase({run_, path_});
}

}  // namespace millrace
