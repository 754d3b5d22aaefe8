#include "tasks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace millrace::http {
namespace {

using Headers = std::map<std::string, std::string, std::less<>>;

// The request after 4 of 10 bytes have arrived in a reply with these headers.
std::map<std::string, std::string> asked_behind(Headers headers) {
  std::vector<std::uint8_t> bytes;
  Download download([&](std::uint64_t size) {
    bytes.resize(size);
    return bytes.data();
  });
  headers["content-length"] = "10";
  web::HttpReply reply;
  reply.head = {.status = 200, .headers = std::move(headers)};
  EXPECT_EQ(download.place(reply.head).to.size(), 10U);
  reply.received = 4;
  download.take(reply, false);
  const auto asked = download.headers();
  return {asked.begin(), asked.end()};
}

const char* const kChanged = "Fri, 27 Nov 2026 10:00:59 GMT";

TEST(Download, GoesOnWhereItKnowsThatTheFileIsTheSame) {
  const std::map<std::string, std::string> etag = {{"Range", "bytes=4-"}, {"If-Range", "\"a1\""}};
  EXPECT_EQ(asked_behind({{"etag", "\"a1\""}}), etag);
  const std::map<std::string, std::string> date = {{"Range", "bytes=4-"}, {"If-Range", kChanged}};
  EXPECT_EQ(asked_behind({{"last-modified", kChanged}, {"date", "Fri, 27 Nov 2026 10:01:00 GMT"}}), date);
  EXPECT_EQ(asked_behind({{"etag", "W/\"a1\""}, {"last-modified", kChanged}, {"date", "Sat, 28 Nov 2026 00:00:00 GMT"}}), date);
}

// A file that changed twice in one second was once assembled from two versions (RFC 9110, 8.8.2.2).
TEST(Download, BeginsAgainWhereTheFileMayHaveChangedInTheSecondInWhichItWasSent) {
  for (const char* sent : {kChanged, "Fri, 27 Nov 2026 09:00:00 GMT", "tomorrow", ""}) {
    EXPECT_TRUE(asked_behind({{"last-modified", kChanged}, {"date", sent}}).empty()) << sent;
  }
  EXPECT_TRUE(asked_behind({{"last-modified", "yesterday"}, {"date", kChanged}}).empty());
  EXPECT_TRUE(asked_behind({{"etag", "W/\"a1\""}}).empty());
  EXPECT_TRUE(asked_behind({}).empty());
}

}  // namespace
}  // namespace millrace::http
