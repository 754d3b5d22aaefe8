// Contents of an install tree, and of the packages' components.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

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

std::vector<fs::path> files(const fs::path& folder = kPrefix) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
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

// The packages that install a file, by its path below the prefix. Links count as files.
std::map<fs::path, std::vector<std::string>> packages() {
  std::map<fs::path, std::vector<std::string>> owners;
  for (const auto& package : fs::directory_iterator(MILLRACE_PREFIX "_packages")) {
    for (const auto& entry : fs::recursive_directory_iterator(package)) {
      if (!entry.is_directory()) owners[entry.path().lexically_relative(package)].push_back(package.path().filename());
    }
  }
  return owners;
}

TEST(Packages, HoldEachInstalledFileOnce) {
  const auto owners = packages();
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kPrefix)) {
    if (entry.is_directory()) continue;
    const fs::path file = entry.path().lexically_relative(kPrefix);
    const auto found = owners.find(file);
    const std::size_t of_it = found == owners.end() ? 0 : found->second.size();
    EXPECT_EQ(of_it, 1U) << file;
    ++count;
  }
  EXPECT_EQ(owners.size(), count) << "a package holds a file that the install tree lacks";
}

TEST(Packages, KeepApartWhatHasDependenciesOfItsOwn) {
  const fs::path plugins = fs::path(MILLRACE_LIBDIR) / "millrace";
  const std::map<fs::path, std::string> wanted = {{"bin/pipeline-run", "programs"},
                                                  {plugins / "plugins/cpu.so", "programs"},
                                                  {plugins / "plugins/observer_page.so", "page"},
                                                  {plugins / "plugins/communicator_mpi.so", "mpi"},
                                                  {plugins / "mpi/mpi_wire.so", "mpi"},
                                                  {plugins / "plugins/cuda.so", "cuda"},
                                                  {fs::path(MILLRACE_LIBDIR) / "libmillrace.so", "dev"},
                                                  {"include/millrace/stage.h", "dev"}};
  for (const auto& [file, owners] : packages()) {
    const auto found = wanted.find(file);
    std::string owner = found != wanted.end() ? found->second : owners[0];
    if (file.begin()->string() == "include") owner = "dev";
    if (file.filename().string().starts_with("libmillrace_predict.so.")) owner = "predict";
    EXPECT_EQ(owners, std::vector{owner}) << file;
  }
}

TEST(Packages, NameTheLicenceOfEveryLibrary) {
  const std::string table = content(kPrefix / "share/millrace/licences.txt");
  for (const fs::path& file : files()) {
    if (!is_elf(file)) continue;
    for (const std::string& library : needed_libraries(file)) {
      const std::string name = library.substr(0, library.find(".so") + 3);  // libtbb.so.12
      const bool is_named = name.starts_with("libmillrace") || table.find(" " + name + " ") != std::string::npos;
      EXPECT_TRUE(is_named) << file << " needs " << library << ", which tools/packaging/licences.txt lacks";
    }
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
