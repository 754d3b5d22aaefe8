#include "millrace/storage.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/util/cache_folder.h"
#include "millrace/util/paths.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

// A minimal storage.
class ReadOnlyStorage final : public Storage {
 public:
  void list(const std::string&, const std::function<void(Object)>&) override {}
  Object stat(const std::string&) override { return {}; }
  void read(const std::string&, ByteBuffer&) override {}
  void read(const std::string&, std::uint64_t, std::size_t, std::uint8_t*) override {}
};

TEST(Storage, ThatOnlyReadsSaysSo) {
  ReadOnlyStorage storage;
  const std::string url = "https://me:secret@host/a";
  for (const std::function<void()>& act :
       {std::function<void()>([&] { storage.write(url); }), std::function<void()>([&] { storage.remove(url); }),
        std::function<void()>([&] { storage.is_empty(url); })}) {
    const Error error = testkit::error_of(ErrorKind::usage, [&] { act(); });
    EXPECT_STREQ(error.what(), "'https://me:***@host/a' cannot be written: the storage of https:// is read-only");
  }
}

TEST(Storage, ThatRefusesDoesNotSayThatThereIsNothing) {
  const auto says = [](const std::string& url, const std::string& cause, ErrorKind kind = ErrorKind::data) {
    return means_absent(Error(kind, fmt::format("cannot read '{}': {}", url, cause)), url);
  };
  const std::string bucket = "s3://bucket/classes.txt", web = "https://host/classes.txt";
  EXPECT_TRUE(says(bucket, "HTTP 404 NoSuchKey (no such object at host)"));
  EXPECT_FALSE(says(bucket, "HTTP 403 AccessDenied: HTTP 404 may be meant"));
  EXPECT_FALSE(says(bucket, "HTTP 301 PermanentRedirect (the bucket lies in the region 'b')"));
  EXPECT_TRUE(says("other://bucket/x", "there is none"));
  EXPECT_TRUE(says(web, "HTTP 404 (no such file)"));
  EXPECT_TRUE(says(web, "HTTP 403 (the server does not allow it)"));
  for (const std::string& url : {bucket, web}) EXPECT_FALSE(says(url, "HTTP 404", ErrorKind::unreachable));
  EXPECT_TRUE(says("/nowhere/classes.txt", "No such file or directory"));
  EXPECT_FALSE(says("/proc/self/status", "Permission denied")) << "it is there";
}

TEST(CacheFolder, IsTheFirstThatIsNamedWhole) {
  const auto saved = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  const std::string own = saved("MILLRACE_CACHE"), xdg = saved("XDG_CACHE_HOME"), home = saved("HOME");
  setenv("MILLRACE_CACHE", "/one", 1);
  setenv("XDG_CACHE_HOME", "/two", 1);
  setenv("HOME", "/three", 1);
  EXPECT_EQ(cache_folder("weights"), "/one/weights");
  setenv("MILLRACE_CACHE", "relative", 1);
  EXPECT_EQ(testkit::error_of([] { cache_folder("weights"); }).kind(), ErrorKind::usage);
  unsetenv("MILLRACE_CACHE");
  EXPECT_EQ(cache_folder("weights"), "/two/millrace/weights");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(cache_folder("weights"), "/three/.cache/millrace/weights");
  unsetenv("HOME");
  EXPECT_EQ(cache_folder("weights"), "");
  own.empty() ? unsetenv("MILLRACE_CACHE") : setenv("MILLRACE_CACHE", own.c_str(), 1);
  xdg.empty() ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", xdg.c_str(), 1);
  home.empty() ? unsetenv("HOME") : setenv("HOME", home.c_str(), 1);
}

TEST(FileUrl, StandsForCharactersByTheirEscapes) {
  EXPECT_EQ(file_url_path("file:///data/my%20photos/%C3%A4%25.jpg"), "/data/my photos/\xc3\xa4%.jpg");
  EXPECT_EQ(file_url_path("/data/my%20photos"), "/data/my%20photos") << "a path, in which nothing is encoded";
  EXPECT_EQ(file_url_path("s3://bucket/a%20b"), "s3://bucket/a%20b");
  EXPECT_EQ(local_path("--out", "file:///a%20b"), "/a b");
  EXPECT_EQ(local_path("--out", "a%20b"), "a%20b");
  EXPECT_MESSAGE(testkit::error_of([] { local_path("--out", "s3://b/x"); }).what());
  for (const char* wrong : {"file:///100% wool", "file:///a%2", "file:///a%00b", "file://data/train"}) {
    EXPECT_THROW(file_url_path(wrong), Error) << wrong;
  }
}

TEST(CacheFolder, IsNoPathThatDiffersFromProgramToProgram) {
  setenv("MILLRACE_CACHE", "cache", 1);
  const Error error = testkit::error_of(ErrorKind::usage, [&] { cache_folder("tar"); });
  EXPECT_EQ(error.message(), "MILLRACE_CACHE = 'cache': expected an absolute path, which is the same for all programs");
  unsetenv("MILLRACE_CACHE");
}

}  // namespace
}  // namespace millrace
