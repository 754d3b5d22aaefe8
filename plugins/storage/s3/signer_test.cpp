// The vectors are AWS's own: the Signature Version 4 test suite, and the examples in the S3 API reference.
#include "signer.h"

#include <gtest/gtest.h>

#include "digest.h"
#include "millrace/util/bytes.h"

namespace millrace::s3 {
namespace {

const Credentials kSuite{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""};
const Credentials kReference{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};

std::string signature_of(const std::string& value) { return value.substr(value.find("Signature=") + 10); }

std::string suite(const std::string& path, const Query& query, Headers headers = {}, const std::string& method = "GET") {
  headers.emplace_back("host", "example.amazonaws.com");
  headers.emplace_back("x-amz-date", "20150830T123600Z");
  return signature_of(authorization({method, path, query, headers, hex_text(sha256(""))}, kSuite, {"us-east-1", "service"}));
}

std::string reference(const std::string& path, const Query& query, Headers headers = {}) {
  headers.emplace_back("host", "examplebucket.s3.amazonaws.com");
  headers.emplace_back("x-amz-content-sha256", hex_text(sha256("")));
  headers.emplace_back("x-amz-date", "20130524T000000Z");
  return signature_of(authorization({"GET", path, query, headers, hex_text(sha256(""))}, kReference, {"us-east-1", "s3"}));
}

TEST(Signer, HasTheHmacOfTheStandard) {
  EXPECT_EQ(hex_text(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");  // RFC 4231
}

TEST(Signer, AgreesWithTheTestSuite) {
  EXPECT_EQ(suite("/", {}), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");  // get-vanilla
  EXPECT_EQ(suite("/", {{"Param2", "value2"}, {"Param1", "value1"}}),  // get-vanilla-query-order-key-case
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
  EXPECT_EQ(suite("/" + percent_encode("\xE1\x88\xB4"), {}),  // get-utf8
            "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85");
  EXPECT_EQ(suite("/", {}, {{"my-header1", "value2,value2,value1"}}),  // get-header-key-duplicate
            "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea");
  EXPECT_EQ(suite("/", {}, {}, "POST"),  // post-vanilla
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
}

TEST(Signer, AgreesWithTheReferenceOfS3) {
  EXPECT_EQ(reference("/test.txt", {}, {{"range", "bytes=0-9"}}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");  // GET Object
  EXPECT_EQ(reference("/", {{"lifecycle", ""}}), "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(reference("/", {{"prefix", "J"}, {"max-keys", "2"}}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");  // List Objects
}

TEST(Signer, AgreesWithTheReferenceOfS3OnABody) {  // PUT Object
  const std::string body_hash = hex_text(sha256("Welcome to Amazon S3."));
  const Headers headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                           {"host", "examplebucket.s3.amazonaws.com"},
                           {"x-amz-content-sha256", body_hash},
                           {"x-amz-date", "20130524T000000Z"},
                           {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
  EXPECT_EQ(signature_of(authorization({"PUT", "/test%24file.text", {}, headers, body_hash}, kReference, {"us-east-1", "s3"})),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  const auto time = std::chrono::system_clock::time_point(std::chrono::seconds(1'369'353'600));
  const Headers made = sign("PUT", "host", "/a", {}, kReference, {"us-east-1"}, time, body_hash);
  EXPECT_EQ(made[1], std::pair(std::string("x-amz-content-sha256"), body_hash));
}

TEST(Signer, CollapsesBlanksInHeaders) {
  EXPECT_EQ(suite("/", {}, {{"my-header1", "  a   b  "}}), suite("/", {}, {{"my-header1", "a b"}}));
}

TEST(Signer, SignsATokenAndNamesWhatItSigned) {
  const auto time = std::chrono::system_clock::time_point(std::chrono::seconds(1'369'353'600));  // 2013-05-24 00:00:00
  Credentials temporary = kReference;
  temporary.token = "a token";
  const Headers headers =
      sign("GET", "examplebucket.s3.amazonaws.com", "/", {{"prefix", "J"}, {"max-keys", "2"}}, temporary, {"us-east-1"}, time);
  ASSERT_EQ(headers.size(), 5U);
  EXPECT_EQ(headers[2], std::pair(std::string("x-amz-date"), std::string("20130524T000000Z")));
  EXPECT_EQ(headers[3], std::pair(std::string("x-amz-security-token"), std::string("a token")));
  EXPECT_NE(headers[4].second.find("Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
                                   "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature="),
            std::string::npos)
      << headers[4].second;
  const Headers plain =
      sign("GET", "examplebucket.s3.amazonaws.com", "/", {{"prefix", "J"}, {"max-keys", "2"}}, kReference, {"us-east-1"}, time);
  EXPECT_EQ(signature_of(plain.back().second), "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

}  // namespace
}  // namespace millrace::s3
