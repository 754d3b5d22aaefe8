#include "common/environment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

TEST(EnvironmentVariables, ThatAreMisspeltAreNamedWithTheNearest) {
  const char* const environment[] = {"MILLRACE_S3_TIMOUT=5",   "MILLRACE_CACHE=/x",   "MILLRACE_DATA=/mine",   "HOME=/",
                                     "MILLRACE_PLUGINS_PATH=", "MILLRACE_SOAK=1",     "PLUGIN_PATHS=/x",       "MILLRACE_",
                                     "MILLRACE_PIPELINE=/x",   "MILLRACE_RECORDS=24", "MILLRACE_CACHE_DIR=/x", nullptr};
  EXPECT_EQ(misspelt_variables(environment),
            (Lines{"unknown environment variable MILLRACE_CACHE_DIR; nearest is MILLRACE_CACHE",
                   "unknown environment variable MILLRACE_PIPELINE; nearest is MILLRACE_PIPELINES",
                   "unknown environment variable MILLRACE_PLUGINS_PATH; nearest is MILLRACE_PLUGIN_PATH",
                   "unknown environment variable MILLRACE_S3_TIMOUT; nearest is MILLRACE_S3_TIMEOUT"}));
}

TEST(EnvironmentVariables, ThatAnySourceReadsAreKnown) {
  std::set<std::string> read;
  const std::set<std::string> others = {"predict.cpp", "predict.h"};  // names of statuses
  for (const char* folder : {"framework", "plugins", "tools"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(MILLRACE_SOURCE_DIR) / folder)) {
      const std::string name = entry.path().filename().string(), ending = entry.path().extension().string();
      const bool is_source = ending == ".cpp" || ending == ".h" || ending == ".cu" || ending == ".cuh";
      const bool is_of_tests = entry.path().string().find("/testkit/") != std::string::npos;
      if (!is_source || is_of_tests || others.contains(name) || name.find("_test.") != name.npos || name.find("_fixture.") != name.npos) continue;
      std::ifstream file(entry.path());
      const std::string text(std::istreambuf_iterator<char>(file), {});
      constexpr std::string_view kBegin = "\"MILLRACE_";
      for (std::size_t at = text.find(kBegin); at != text.npos; at = text.find(kBegin, at + 1)) {
        const std::size_t begin = at + kBegin.size(),
                          end = text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", begin);
        if (end > begin && end < text.size() && text[end] == '"') read.insert(text.substr(begin, end - begin));
      }
    }
  }
  const auto known = known_variables();
  EXPECT_TRUE(std::ranges::is_sorted(known));
  EXPECT_EQ(Lines(read.begin(), read.end()), Lines(known.begin(), known.end()));
}

}  // namespace
}  // namespace millrace
