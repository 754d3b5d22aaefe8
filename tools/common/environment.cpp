#include "common/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "millrace/detail/value.h"

namespace millrace {
namespace {

constexpr std::string_view kPrefix = "MILLRACE_";
constexpr std::array<std::string_view, 25> kKnown = {"CACHE",
                                                     "CUDA_DEPENDENT_LAUNCH",
                                                     "CUDA_LIBRARIES",
                                                     "CUDA_PROFILE",
                                                     "CUDA_RUNTIME_COMPILATION",
                                                     "CUDA_TRACE",
                                                     "CUDA_WITHOUT",
                                                     "HTTP_ATTEMPTS",
                                                     "HTTP_CONNECT_TIMEOUT",
                                                     "HTTP_STALL_TIMEOUT",
                                                     "HTTP_TIMEOUT",
                                                     "JOB_KEY",
                                                     "PIPELINES",
                                                     "PLUGIN_PATH",
                                                     "PLUGIN_TRUST",
                                                     "S3_ATTEMPTS",
                                                     "S3_CACHE",
                                                     "S3_CACHE_SIZE",
                                                     "S3_CONNECT_TIMEOUT",
                                                     "S3_PARALLEL",
                                                     "S3_PART",
                                                     "S3_STALL_TIMEOUT",
                                                     "S3_TIMEOUT",
                                                     "SLOW_SUMS",
                                                     "SLOW_SUMS_LOG"};

}  // namespace

std::span<const std::string_view> known_variables() { return kKnown; }

std::vector<std::string> misspelt_variables(const char* const* environment) {
  const std::vector<std::string> known(kKnown.begin(), kKnown.end());
  std::vector<std::string> lines;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    if (!entry.starts_with(kPrefix)) continue;
    const std::string_view name = entry.substr(kPrefix.size(), entry.find('=') - kPrefix.size());
    if (std::ranges::find(kKnown, name) != kKnown.end()) continue;
    auto nearest = nearest_name(name, known);
    for (const std::string& each : known) {
      if (!nearest && name.starts_with(each + "_")) nearest = each;  // CACHE_DIR
    }
    if (nearest) lines.push_back(fmt::format("unknown environment variable {0}{1}; nearest is {0}{2}", kPrefix, name, *nearest));
  }
  std::ranges::sort(lines);
  return lines;
}

}  // namespace millrace
