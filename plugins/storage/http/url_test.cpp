#include "url.h"

#include <gtest/gtest.h>

#include "http_storage.h"
#include "millrace/error.h"
#include "testkit/files.h"

namespace millrace::http {
namespace {

TEST(SendableUrls, AreEncodedWhereTheyMustBe) {
  EXPECT_EQ(sendable("https://host/a%20b/c?x=[1]#part"), "https://host/a%20b/c?x=[1]");
  EXPECT_EQ(sendable("http://host:81/a b/\xC3\xBC"), "http://host:81/a%20b/%C3%BC");
  for (const char* url : {"s3://bucket/x", "https://", "https:///x", "host/x", ""}) EXPECT_THROW(sendable(url), Error) << url;
  EXPECT_THROW(sendable("https://me:secret@host/x"), Error);
  EXPECT_THROW(sendable("https://me@host/x"), Error);
}

TEST(Redirects, LeadFromWhereTheyAre) {
  EXPECT_EQ(resolved("https://host/a/b?x", "c"), "https://host/a/c");
  EXPECT_EQ(resolved("https://host/a/b", "/c"), "https://host/c");
  EXPECT_EQ(resolved("https://host/a/b", "//other/c"), "https://other/c");
  EXPECT_EQ(resolved("https://host/a/b", "http://other:81/c?y"), "http://other:81/c?y");
  for (const char* location : {"", "ftp://host/x", "file:///etc/passwd", "https://me:secret@host/x"})
    EXPECT_EQ(resolved("https://host/a", location), "") << location;
}

TEST(Origins, AreSchemeHostAndPort) {
  EXPECT_TRUE(is_same_origin("https://host/a", "https://host:443/b"));
  EXPECT_FALSE(is_same_origin("https://host/a", "http://host/a"));
  EXPECT_FALSE(is_same_origin("https://host/a", "https://other/a"));
  EXPECT_FALSE(is_same_origin("https://host/a", "https://host:444/a"));
}

TEST(Reach, IsThatOfAnAddressHoweverItIsWritten) {
  using web::Reach;
  const auto of = [](const std::string& url) { return web::reach_of(host_of(url)); };
  for (const char* url : {"http://169.254.169.254/", "http://[fe80::1]/", "http://[::ffff:169.254.1.1]/", "http://2852039166/"})
    EXPECT_EQ(of(url), Reach::link) << url;
  for (const char* url :
       {"http://10.1.2.3/", "http://172.31.0.1/", "http://192.168.0.1:81/x", "http://127.1/", "http://0x7f000001/",
        "http://0.0.0.0/", "http://100.64.0.1/", "http://[::1]/", "http://[fd00::1]/", "http://[::ffff:10.0.0.1]/"})
    EXPECT_EQ(of(url), Reach::network) << url;
  for (const char* url : {"http://172.32.0.1/", "http://8.8.8.8/", "http://192.169.0.1/", "http://[2001:db8::1]/"})
    EXPECT_EQ(of(url), Reach::world) << url;
  EXPECT_EQ(of("http://localhost/"), std::nullopt) << "a name is looked at when it has been resolved";
}

TEST(LastPart, IsThatOfThePath) {
  EXPECT_EQ(last_part("https://host/a/b.pth?x=/y"), "b.pth");
  EXPECT_EQ(last_part("https://host/a/"), "");
  EXPECT_EQ(last_part("https://host"), "");
}

TEST(HttpSettings, NameTheVariableThatIsWrong) {
  const auto soon = [](const char* name) { return std::string(name) == "MILLRACE_HTTP_TIMEOUT" ? "soon" : ""; };
  const Error error = testkit::error_of([&] { read_settings(soon); });
  EXPECT_EQ(error.message(), "MILLRACE_HTTP_TIMEOUT = 'soon': expected seconds from 0.1 to 86400");
}

}  // namespace
}  // namespace millrace::http
