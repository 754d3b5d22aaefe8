#include "millrace/storage.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "millrace/cache_folder.h"

namespace millrace {
namespace {

TEST(UrlText, HidesWhatMayBeSecret) {
  EXPECT_EQ(url_text("https://me:secret@host:81/a/b.pth?signature=x#y"), "https://host:81/a/b.pth?...");
  EXPECT_EQ(url_text("https://host/a@b#y"), "https://host/a@b");
  EXPECT_EQ(url_text("http://host?x"), "http://host?...");
  EXPECT_EQ(url_text("s3://bucket/a?b#c"), "s3://bucket/a?b#c");
  EXPECT_EQ(url_text("ftp://me:secret@host/x"), "ftp://host/x");
  EXPECT_EQ(url_text("data/a?b@c"), "data/a?b@c");
}

TEST(CacheFolder, IsTheFirstThatIsNamedWhole) {
  const auto saved = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  const std::string own = saved("MILLRACE_CACHE"), xdg = saved("XDG_CACHE_HOME"), home = saved("HOME");
  setenv("MILLRACE_CACHE", "/one", 1);
  setenv("XDG_CACHE_HOME", "/two", 1);
  setenv("HOME", "/three", 1);
  EXPECT_EQ(cache_folder("weights"), "/one/weights");
  setenv("MILLRACE_CACHE", "relative", 1);
  EXPECT_EQ(cache_folder("weights"), "/two/millrace/weights");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(cache_folder("weights"), "/three/.cache/millrace/weights");
  unsetenv("HOME");
  EXPECT_EQ(cache_folder("weights"), "");
  own.empty() ? unsetenv("MILLRACE_CACHE") : setenv("MILLRACE_CACHE", own.c_str(), 1);
  xdg.empty() ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", xdg.c_str(), 1);
  home.empty() ? unsetenv("HOME") : setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace millrace
