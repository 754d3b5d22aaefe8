// Plugins that other users may change are not loaded.
#include "plugin/trust.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMessage = "'{}' is not trusted, since {}: {}, or set MILLRACE_PLUGIN_TRUST=any to load plugins anyway";

constexpr const char* kNotHere = "this container has no such user";

// A folder with a good plugin, both writable by this user alone.
class Trust : public testing::Test {
 protected:
  Trust() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::copy_file(fmt::format("{}/good.so", TEST_PLUGIN_DIR), file_);
    set_mode(folder_, 0755);
    set_mode(file_, 0755);
    setenv("MILLRACE_PLUGIN_PATH", folder_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  ~Trust() override {
    unsetenv("MILLRACE_PLUGIN_PATH");   // NOLINT(concurrency-mt-unsafe)
    unsetenv("MILLRACE_PLUGIN_TRUST");  // NOLINT(concurrency-mt-unsafe)
    fs::remove_all(folder_);
  }

  static void set_mode(const fs::path& path, mode_t mode) { ASSERT_EQ(::chmod(path.c_str(), mode), 0); }
  static std::string text(const fs::path& path, const std::string& found, const std::string& mend) {
    return fmt::format(fmt::runtime(kMessage), path.string(), found, mend);
  }
  // Why the plugin was not loaded; "" if it was.
  static std::string reason() {
    Registry registry;
    load_all_plugins(registry);
    if (registry.stages().find("add_to_label") != nullptr) return "";
    return load_errors(registry).empty() ? "no reason" : load_errors(registry).front();
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / fmt::format("millrace_trust_{}", ::getpid());
  const fs::path file_ = folder_ / "good.so";
};

TEST_F(Trust, IsGivenToWhatThisUserAloneMayWrite) {
  EXPECT_EQ(distrust(folder_), "");
  EXPECT_EQ(distrust(file_), "");
  EXPECT_EQ(distrust(folder_ / "missing"), "");
  EXPECT_EQ(reason(), "");
}

TEST_F(Trust, IsRefusedToAFolderThatEveryUserMayWrite) {
  set_mode(folder_, 0777);
  const std::string expected = text(folder_, "every user may write it (mode 0777)", "take that away (chmod o-w)");
  EXPECT_EQ(distrust(folder_), expected);
  Registry registry;
  load_all_plugins(registry);
  EXPECT_EQ(registry.stages().find("add_to_label"), nullptr);
  ASSERT_FALSE(load_errors(registry).empty());
  EXPECT_MESSAGE(load_errors(registry).front());
  EXPECT_NE(skipped_clause(registry, "add_to_label").find(expected), std::string::npos) << "a missing stage has a reason";
}

TEST_F(Trust, IsRefusedToAFileThatEveryUserMayWrite) {
  set_mode(file_, 0666);
  EXPECT_MESSAGE(reason());
}

TEST_F(Trust, IsRefusedBelowAFolderThatEveryUserMayWrite) {
  const fs::path below = folder_ / "below";
  fs::create_directories(below);
  set_mode(below, 0755);
  fs::copy_file(file_, below / "good.so");
  setenv("MILLRACE_PLUGIN_PATH", below.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(reason(), "");
  set_mode(folder_, 0777);
  const std::string expected = text(fs::canonical(folder_), "every user may write it (mode 0777)", "take that away (chmod o-w)");
  EXPECT_EQ(distrust(below), expected);
  EXPECT_EQ(distrust(below / "good.so"), expected);
  EXPECT_MESSAGE(reason());
  set_mode(folder_, 01777);
  EXPECT_EQ(reason(), "") << "as in /tmp, nobody can put another folder in its place";
}

TEST_F(Trust, IsRefusedToALinkIntoAFolderThatEveryUserMayWrite) {
  const fs::path links = folder_ / "links", open = folder_ / "open";
  for (const fs::path& each : {links, open}) {
    fs::create_directories(each);
    set_mode(each, 0755);
  }
  fs::rename(file_, open / "good.so");
  fs::create_symlink(open / "good.so", links / "good.so");
  setenv("MILLRACE_PLUGIN_PATH", links.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(reason(), "");
  set_mode(open, 0777);
  EXPECT_MESSAGE(reason());
}

TEST_F(Trust, IsGivenToWhatTheOwnGroupMayWrite) {
  set_mode(folder_, 0775);
  set_mode(file_, 0775);
  ASSERT_EQ(::chown(folder_.c_str(), static_cast<uid_t>(-1), ::getegid()), 0);  // a set-group-ID bit above may have changed it
  ASSERT_EQ(::chown(file_.c_str(), static_cast<uid_t>(-1), ::getegid()), 0);
  EXPECT_EQ(reason(), "");
}

TEST_F(Trust, IsRefusedToWhatAnotherGroupMayWrite) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another group";
  if (::chown(file_.c_str(), static_cast<uid_t>(-1), 12345) != 0) GTEST_SKIP() << kNotHere;
  EXPECT_EQ(reason(), "") << "it may not write yet";
  set_mode(file_, 0775);
  EXPECT_MESSAGE(reason());
}

TEST_F(Trust, IsRefusedToWhatAnotherUserOwns) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  if (::chown(file_.c_str(), 12345, static_cast<gid_t>(-1)) != 0) GTEST_SKIP() << kNotHere;
  EXPECT_MESSAGE(reason());
}

// A shared installation belongs to an account for software maintenance.
TEST_F(Trust, OfPluginsThatCameWithTheProgramIsThatOfTheProgram) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  constexpr uid_t kKeeper = 12345;
  const fs::path library = folder_ / "lib", own = own_plugin_folder(library), plugin = own / "good.so";
  fs::create_directories(own);
  fs::copy_file(file_, plugin);
  const auto give = [](const fs::path& path, mode_t mode, uid_t user, gid_t group) {
    set_mode(path, mode);
    return ::chown(path.c_str(), user, group) == 0;
  };
  for (const fs::path& each : {library, library / "millrace", own, plugin}) {
    if (!give(each, 0755, kKeeper, 0)) GTEST_SKIP() << kNotHere;
  }
  EXPECT_EQ(distrust(own, library), "");
  EXPECT_EQ(distrust(plugin, library), "");
  EXPECT_NE(distrust(plugin, folder_), "") << "of another program";
  ASSERT_TRUE(give(library, 0755, 0, 0));
  EXPECT_EQ(distrust(plugin, library), text(plugin, "user 12345 owns it", "make it yours (chown 0)"));

  for (const fs::path& each : {library, plugin}) ASSERT_TRUE(give(each, 0775, 0, kKeeper));
  EXPECT_EQ(distrust(plugin, library), "") << "a group keeps both";
  set_mode(library, 0755);
  EXPECT_NE(distrust(plugin, library), "") << "it may write the plugin alone";
  set_mode(library, 0775);
  fs::rename(plugin, folder_ / "elsewhere.so");
  fs::create_symlink(folder_ / "elsewhere.so", plugin);
  EXPECT_NE(distrust(plugin, library), "") << "what a link leads to did not come with the program";
}

TEST_F(Trust, IsGivenToAllWhenThatIsAskedFor) {
  set_mode(folder_, 0777);
  set_mode(file_, 0666);
  EXPECT_NE(reason(), "");
  setenv("MILLRACE_PLUGIN_TRUST", "any", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(reason(), "");
}

TEST_F(Trust, TakesOneWordAlone) {
  setenv("MILLRACE_PLUGIN_TRUST", "all", 1);  // NOLINT(concurrency-mt-unsafe)
  const Error error = testkit::error_of([&] { reason(); });
  EXPECT_STREQ(error.what(), "MILLRACE_PLUGIN_TRUST = 'all': expected any, or nothing");
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  setenv("MILLRACE_PLUGIN_TRUST", "", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(reason(), "");
}

}  // namespace
}  // namespace millrace
