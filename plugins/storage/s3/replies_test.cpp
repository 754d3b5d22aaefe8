#include "replies.h"

#include <gtest/gtest.h>

#include <random>

#include "millrace/error.h"

namespace millrace::s3 {
namespace {

const std::string kPage =
    R"(<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>images</Name><Prefix>a/</Prefix><KeyCount>2</KeyCount><MaxKeys>2</MaxKeys><EncodingType>url</EncodingType>
  <IsTruncated>true</IsTruncated><NextContinuationToken>1/x&amp;=</NextContinuationToken>
  <Contents><Key>a/b+%2B%25%C3%BC</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;abc&quot;</ETag><Size>7</Size></Contents>
  <Contents><Key>a/c</Key><Size>0</Size><ETag>"def"</ETag><StorageClass>STANDARD</StorageClass></Contents>
</ListBucketResult>)";

std::string without(std::string text, const std::string& part, const std::string& instead = "") {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, text.npos) << part;
  return text.replace(at, part.size(), instead);
}

std::string complaint(const std::string& xml) {
  try {
    parse_list_page(xml);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::storage);
    return error.message();
  }
  return "";
}

TEST(Replies, HaveTextInAllTheWaysOfXml) {
  const ServerError error = parse_server_error(
      "\xEF\xBB\xBF<?xml version='1.0'?><!-- c --><a:Error x='1' y = \"<>\" ><Region/><a:Code>1 "
      "&lt;&#x41;&#66;</a:Code><Message>one<!-- c --><![CDATA[<x>&amp;]]> &unknown;</Message><Endpoint> </Endpoint></a:Error> "
      "\n");
  EXPECT_EQ(error.code, "1 <AB");
  EXPECT_EQ(error.message, "one<x>&amp; &unknown;");
  EXPECT_EQ(error.region, "");
  EXPECT_EQ(error.endpoint, " ");
}

TEST(Replies, AreRefusedUnlessTheyAreOneDocumentWithoutAType) {
  std::string open, deep;
  for (int i = 0; i < 100'000; ++i) open += "<a>";
  deep = open;
  for (int i = 0; i < 100'000; ++i) deep += "</a>";
  for (const std::string& text :
       {std::string(), std::string("hello"), std::string("<a>"), std::string("<a></b>"), std::string("<a/><b/>"),
        std::string("<a b></a>"), std::string("<!DOCTYPE a><a/>"), std::string("<a><!DOCTYPE a></a>"),
        std::string("<!DOCTYPE a [<!ENTITY b 'bb'><!ENTITY c '&b;&b;'>]><a>&c;</a>"), std::string("<a><!-- </a>"),
        std::string("<a b='1></a>"), open}) {
    EXPECT_NE(complaint(text).find("the reply is not XML: "), std::string::npos) << text.substr(0, 40);
  }
  EXPECT_NE(complaint(deep).find("the reply to a listing is a 'a'"), std::string::npos);  // without a growing stack
}

TEST(ListPage, HasKeysSizesAndTheToken) {
  const ListPage page = parse_list_page(kPage);
  ASSERT_EQ(page.objects.size(), 2U);
  EXPECT_EQ(page.objects[0].key, "a/b +%\xC3\xBC");
  EXPECT_EQ(page.objects[0].bytes, 7U);
  EXPECT_EQ(page.objects[0].etag, "abc");
  EXPECT_EQ(page.objects[1].key, "a/c");
  EXPECT_EQ(page.next, "1/x&=");
}

TEST(ListPage, TakesKeysAsTheyAreFromAServerThatDoesNotEncode) {
  const ListPage page = parse_list_page(without(kPage, "<EncodingType>url</EncodingType>"));
  EXPECT_EQ(page.objects[0].key, "a/b+%2B%25%C3%BC");
}

TEST(ListPage, IsRefusedWhenSomethingIsMissing) {
  EXPECT_NE(complaint(without(kPage, "<Size>7</Size>")).find("without a size"), std::string::npos);
  EXPECT_NE(complaint(without(kPage, "<Size>7</Size>", "<Size>-7</Size>")).find("without a size"), std::string::npos);
  EXPECT_NE(complaint(without(kPage, "<Key>a/c</Key>")).find("without a key"), std::string::npos);
  EXPECT_NE(complaint(without(kPage, "%C3%BC", "%C")).find("not URL-encoded"), std::string::npos);
  EXPECT_NE(complaint(without(kPage, "<IsTruncated>true</IsTruncated>")).find("whether more follows"), std::string::npos);
  EXPECT_NE(complaint(without(kPage, "1/x&amp;=")).find("the token to continue is missing"), std::string::npos);
  EXPECT_NE(complaint(without(kPage, "<KeyCount>2", "<KeyCount>3")).find("number of keys is wrong"), std::string::npos);
  EXPECT_NE(complaint("<html></html>").find("'html' instead of"), std::string::npos);
}

TEST(ListPage, IsRefusedWhereverItIsCut) {
  for (std::size_t size = 0; size < kPage.size(); ++size) EXPECT_NE(complaint(kPage.substr(0, size)), "") << size;
}

TEST(ListPage, SurvivesGarbage) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 5'000; ++trial) {
    std::string text = kPage;
    for (int change = 0; change < 3; ++change) text[random() % text.size()] = static_cast<char>(random() & 255);
    complaint(text);  // an Error, or none; anything else ends the test
  }
}

TEST(Uploads, AreWholeWhenTheServerSaysSo) {
  const std::string begun = "<InitiateMultipartUploadResult><UploadId>a+/=&amp;</UploadId></InitiateMultipartUploadResult>";
  EXPECT_EQ(parse_upload_id(begun), "a+/=&");
  EXPECT_THROW(parse_upload_id(without(begun, "<UploadId>a+/=&amp;</UploadId>")), Error);
  EXPECT_NO_THROW(check_completed("<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"));
  EXPECT_THROW(check_completed("<Error><Code>InternalError</Code></Error>"), Error);
  EXPECT_THROW(check_completed(""), Error);
}

TEST(Uploads, NameTheirPartsAndHaveTheirETag) {
  const std::vector<std::string> etags = {"f97c5d29941bfb1b2fdab0874906ab82",   // MD5 of "one"
                                          "b8a9f715dbb64fd5c56e7783c6820a61"};  // of "two"
  EXPECT_EQ(completion(etags), "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;" + etags[0] +
                                   "&quot;</ETag></Part><Part><PartNumber>2</PartNumber><ETag>&quot;" + etags[1] +
                                   "&quot;</ETag></Part></CompleteMultipartUpload>");
  EXPECT_EQ(etag_of_parts(etags), "1397b7ee3222e3980d0d20f23a871b02-2");
  EXPECT_EQ(etag_of_parts({etags[0], "another kind of tag"}), "");
}

TEST(ServerErrors, AreReadAndMadePrintable) {
  const ServerError error =
      parse_server_error("<Error><Code>NoSuchKey</Code><Message>not \x1B[31m there</Message><Region>eu-west-1</Region></Error>");
  EXPECT_EQ(error.code, "NoSuchKey");
  EXPECT_EQ(error.message, "not \\x1b[31m there");
  EXPECT_EQ(error.region, "eu-west-1");
  EXPECT_EQ(parse_server_error("<html>Bad gateway</html>").code, "");
  EXPECT_EQ(parse_server_error("").code, "");
}

TEST(Replies, NameTheFoldersOfOneLevel) {
  const std::string folders =
      "<CommonPrefixes><Prefix>a/%C3%BC/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>a/x+y/</Prefix></CommonPrefixes>";
  const ListPage page = parse_list_page(
      without(without(kPage, "</ListBucketResult>", folders + "</ListBucketResult>"), "<KeyCount>2<", "<KeyCount>4<"));
  EXPECT_EQ(page.objects.size(), 2U);
  EXPECT_EQ(page.folders, (std::vector<std::string>{"a/\xc3\xbc/", "a/x y/"}));
}

}  // namespace
}  // namespace millrace::s3
