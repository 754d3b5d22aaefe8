#include "uri.h"

#include <gtest/gtest.h>

#include "millrace/error.h"
#include "millrace/util/paths.h"
#include "testkit/files.h"

namespace millrace::s3 {
namespace {

TEST(PercentEncoding, LeavesOnlyTheUnreservedCharacters) {
  EXPECT_EQ(percent_encode("AZaz09-._~"), "AZaz09-._~");
  EXPECT_EQ(percent_encode("a b+c%d&e=f/g"), "a%20b%2Bc%25d%26e%3Df%2Fg");
  EXPECT_EQ(percent_encode("über/日", true), "%C3%BCber/%E6%97%A5");
}

TEST(PercentEncoding, IsUndone) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(percent_decode(percent_encode(all)), all);
  EXPECT_EQ(percent_decode("a+b%2bc", true), "a b+c");
  EXPECT_EQ(percent_decode("a+b"), "a+b");
}

TEST(PercentEncoding, IsRefusedWhereItIsBroken) {
  for (const char* text : {"%", "%4", "a%zz", "%4g"}) EXPECT_FALSE(percent_decode(text)) << text;
}

TEST(CanonicalQuery, IsSortedAndEncoded) {
  EXPECT_EQ(canonical_query({{"prefix", "a b/"}, {"list-type", "2"}, {"Z", ""}}), "Z=&list-type=2&prefix=a%20b%2F");
}

TEST(ObjectUrl, TakesKeysByteForByte) {
  for (const std::string key : {"", "a", "a/b.jpg", "a b", "a+b", "a%20b", "/a", "a//b", "../a", "a?b#c", "日.png", "a/"}) {
    const ObjectUrl url = parse_object_url("s3://my-bucket/" + key);
    EXPECT_EQ(url.bucket, "my-bucket");
    EXPECT_EQ(url.key, key);
  }
  EXPECT_EQ(parse_object_url("s3://my.bucket_1").bucket, "my.bucket_1");
}

TEST(ObjectUrl, RefusesWhatIsNone) {
  for (const std::string url : {"s3:/bucket/a", "s3:///a", "s3://", "file:///a", "s3://a b/c", "s3://../c", "s3://u@h:80/c"}) {
    const Error error = testkit::error_of(ErrorKind::usage, [&] { parse_object_url(url); });
    const std::string said = url == "s3://u@h:80/c" ? "s3://***@h:80/c" : url;
    // the part before an '@' may be a key
    EXPECT_NE(error.message().find(said), std::string::npos) << error.message();
  }
}

TEST(Endpoint, PutsTheBucketIntoTheHostOfAws) {
  const Endpoint endpoint = make_endpoint("", "eu-central-1");
  EXPECT_EQ(endpoint.scheme, "https");
  EXPECT_EQ(endpoint.host_of("images"), "images.s3.eu-central-1.amazonaws.com");
  EXPECT_EQ(endpoint.path_of("images", "a b/c"), "/a%20b/c");
  EXPECT_EQ(endpoint.path_of("images", ""), "/");
}

TEST(Endpoint, PutsABucketWithDotsIntoThePath) {  // the certificate is for *.s3.REGION.amazonaws.com, one level deep
  const Endpoint endpoint = make_endpoint("", "us-east-1");
  EXPECT_EQ(endpoint.host_of("my.images"), "s3.us-east-1.amazonaws.com");
  EXPECT_EQ(endpoint.path_of("my.images", "../a"), "/my.images/../a");
}

TEST(Endpoint, PutsTheBucketIntoThePathOfOthers) {
  const Endpoint endpoint = make_endpoint("http://127.0.0.1:9000/", "us-east-1");
  EXPECT_EQ(endpoint.host_of("images"), "127.0.0.1:9000");
  EXPECT_EQ(endpoint.path_of("images", "a//b"), "/images/a//b");
  EXPECT_EQ(endpoint.path_of("images", ""), "/images");
  EXPECT_EQ(make_endpoint("https://s3.example.org:443/gate/way", "x").path_of("b", "k"), "/gate/way/b/k");
  EXPECT_EQ(make_endpoint("https://s3.example.org:443", "x").host_of("b"), "s3.example.org");
  EXPECT_EQ(make_endpoint("http://[::1]:9000", "x").host_of("b"), "[::1]:9000");
}

TEST(Endpoint, RefusesWhatIsNone) {
  for (const std::string url : {"127.0.0.1:9000", "ftp://a", "http://", "http://a?b", "http://user@a", "https://a b"}) {
    EXPECT_THROW(make_endpoint(url, "us-east-1"), Error) << url;
  }
}

}  // namespace
}  // namespace millrace::s3
