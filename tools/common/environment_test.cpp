#include "common/environment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

TEST(EnvironmentVariables, ThatAreMisspeltAreNamedWithTheNearest) {
  const char* const environment[] = {"MILLRACE_S3_TIMOUT=5",   "MILLRACE_CACHE=/x",   "MILLRACE_DATA=/mine",   "HOME=/",
                                     "MILLRACE_PLUGINS_PATH=", "MILLRACE_SOAK=1",     "PLUGIN_PATHS=/x",       "MILLRACE_",
                                     "MILLRACE_PIPELINE=/x",   "MILLRACE_RECORDS=24", "MILLRACE_CACHE_DIR=/x", nullptr};
  EXPECT_EQ(misspelt_variables(environment),
            (Lines{"the environment variable MILLRACE_CACHE_DIR means nothing; nearest is MILLRACE_CACHE",
                   "the environment variable MILLRACE_PIPELINE means nothing; nearest is MILLRACE_PIPELINES",
                   "the environment variable MILLRACE_PLUGINS_PATH means nothing; nearest is MILLRACE_PLUGIN_PATH",
                   "the environment variable MILLRACE_S3_TIMOUT means nothing; nearest is MILLRACE_S3_TIMEOUT"}));
}

TEST(EnvironmentVariables, ThatAnySourceReadsAreKnown) {
  std::set<std::string> read;
  const std::regex literal("\"MILLRACE_([A-Z0-9_]+)\"");
  for (const char* folder : {"framework", "plugins", "tools"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(MILLRACE_SOURCE_DIR) / folder)) {
      const std::string name = entry.path().filename().string(), ending = entry.path().extension().string();
      const bool is_source = ending == ".cpp" || ending == ".h" || ending == ".cu" || ending == ".cuh";
      if (!is_source || name.find("_test.") != name.npos || name.find("_fixture.") != name.npos) continue;
      std::ifstream file(entry.path());
      const std::string text(std::istreambuf_iterator<char>(file), {});
      for (std::sregex_iterator found(text.begin(), text.end(), literal), end; found != end; ++found) read.insert((*found)[1]);
    }
  }
  const auto known = known_variables();
  EXPECT_TRUE(std::ranges::is_sorted(known));
  EXPECT_EQ(Lines(read.begin(), read.end()), Lines(known.begin(), known.end()));
}

}  // namespace
}  // namespace millrace
