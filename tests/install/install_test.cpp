// Contents of an install tree.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "needed.h"
#include "walls.h"

namespace millrace::architecture {
namespace {

namespace fs = std::filesystem;

const fs::path kPrefix = MILLRACE_PREFIX;

std::string content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool is_elf(const fs::path& file) { return content(file).starts_with("\177ELF"); }

std::vector<fs::path> files() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(kPrefix)) {
    if (entry.is_regular_file() && !entry.is_symlink()) found.push_back(entry.path());
  }
  return found;
}

TEST(InstallTree, HasExactlyThePublicHeaders) {
  for (const std::string& finding : check_installed_headers(MILLRACE_SOURCE_DIR, kPrefix)) ADD_FAILURE() << finding;
}

TEST(InstallTree, HasEverythingInItsPlace) {
  for (const char* name : {"bin/pipeline-run", "bin/pipeline-inspect", "bin/pipeline-profile",
                           "share/bash-completion/completions/pipeline-run", "share/zsh/site-functions/_millrace",
                           "share/millrace/LICENSE", "share/millrace/pipelines/cifar10.toml", "share/millrace/plugins/guide/layer.md", "share/millrace/pipelines/networks/cifar10_conv.toml",
                           "share/millrace/examples/predict/CMakeLists.txt"}) {
    EXPECT_TRUE(fs::exists(kPrefix / name)) << name;
  }
  const fs::path libraries = kPrefix / MILLRACE_LIBDIR;
  EXPECT_TRUE(fs::exists(libraries / "libmillrace.so"));
  EXPECT_TRUE(fs::exists(libraries / "libmillrace_predict.so"));
  EXPECT_TRUE(fs::exists(libraries / "pkgconfig/millrace-predict.pc"));
  EXPECT_TRUE(fs::exists(libraries / "cmake/Millrace/MillraceConfig.cmake"));
  EXPECT_TRUE(fs::exists(libraries / "cmake/Millrace/MillracePlugin.cmake"));
  EXPECT_TRUE(fs::exists(libraries / "millrace/plugins/read_folder.so"));
}

TEST(InstallTree, HoldsNoTests) {
  for (const fs::path& file : files()) {
    EXPECT_EQ(file.filename().string().find("test"), std::string::npos) << file;
    if (!is_elf(file)) continue;
    for (const std::string& library : needed_libraries(file)) EXPECT_EQ(library.find("gtest"), std::string::npos) << file;
  }
}

TEST(InstallTree, SearchesLibrariesRelativeToItself) {
  for (const fs::path& file : files()) {
    if (!is_elf(file)) continue;
    for (const std::string& folder : run_paths(file)) EXPECT_TRUE(folder.starts_with("$ORIGIN")) << file << ": " << folder;
    const std::vector<std::string> needed = needed_libraries(file);
    const bool needs_ours =
        std::any_of(needed.begin(), needed.end(), [](const auto& name) { return name.starts_with("libmillrace"); });
    EXPECT_TRUE(!needs_ours || !run_paths(file).empty()) << file;
  }
}

TEST(InstallTree, DoesNotNameTheTreeItWasBuiltIn) {
  for (const fs::path& file : files()) {
    if (is_elf(file)) continue;  // debug information and asserts may name sources
    EXPECT_EQ(content(file).find(MILLRACE_BINARY_DIR), std::string::npos) << file;
    EXPECT_EQ(content(file).find(std::string(MILLRACE_PREFIX) + "_fresh"), std::string::npos) << file;
  }
}

}  // namespace
}  // namespace millrace::architecture
