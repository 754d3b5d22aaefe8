#include "verdict.h"

#include <gtest/gtest.h>

namespace millrace::s3 {
namespace {

using What = Verdict::What;

const Asked kAsked{"images", "s3.example.org", "us-east-1", "KEYID", false};

HttpReply reply(int status, const std::string& code = "", const std::string& more = "") {
  HttpReply result;
  result.head.status = status;
  if (!code.empty()) result.text = "<Error><Code>" + code + "</Code><Message>why</Message>" + more + "</Error>";
  return result;
}

TEST(Verdicts, AreGoodForWhatWasAskedFor) {
  EXPECT_EQ(judge(reply(200), kAsked).what, What::good);
  EXPECT_EQ(judge(reply(206), kAsked).what, What::good);
  EXPECT_EQ(judge(reply(416), kAsked).what, What::never);
  Asked ranged = kAsked;
  ranged.ranged = true;
  EXPECT_EQ(judge(reply(416), ranged).what, What::good);
}

TEST(Verdicts, AreGoodWithoutABodyForWhatWrites) {
  EXPECT_EQ(judge(reply(204), kAsked).what, What::never);
  Asked writes = kAsked;
  writes.writes = true;
  EXPECT_EQ(judge(reply(204), writes).what, What::good);
  EXPECT_NE(judge(reply(403, "AccessDenied"), writes).cause.find("'KEYID' may not write there"), std::string::npos);
  EXPECT_NE(judge(reply(404, "NoSuchUpload"), writes).cause.find("no such upload"), std::string::npos);
}

// S3 returns 204 then, and Google's server 404, also if the reply to the first attempt was lost.
TEST(Verdicts, AreGoodWhereWhatIsToBeRemovedIsNotThere) {
  Asked removes = kAsked;
  removes.writes = removes.removes = true;
  EXPECT_EQ(judge(reply(404, "NoSuchKey"), removes).what, What::good);
  EXPECT_EQ(judge(reply(404, "NoSuchBucket"), removes).what, What::never);
  EXPECT_EQ(judge(reply(403, "AccessDenied"), removes).what, What::never);
}

TEST(Verdicts, TryAgainWhatPasses) {
  for (const int status : {408, 429, 500, 502, 503, 504}) EXPECT_EQ(judge(reply(status), kAsked).what, What::again) << status;
  EXPECT_EQ(judge(reply(400, "RequestTimeout"), kAsked).what, What::again);
  EXPECT_EQ(judge(reply(503), kAsked).kind, ErrorKind::unreachable) << "when all tries are used up";
  const Verdict slow = judge(reply(503, "SlowDown"), kAsked);
  EXPECT_EQ(slow.cause, "HTTP 503 SlowDown: why");
  HttpReply reset = reply(0);
  reset.broken = "Connection reset by peer";
  EXPECT_EQ(judge(reset, kAsked).what, What::again);
  reset.can_recover = false;
  EXPECT_EQ(judge(reset, kAsked).what, What::never);
}

TEST(Verdicts, ExplainRefusals) {
  const auto said = [](const HttpReply& answer) {
    const Verdict verdict = judge(answer, kAsked);
    EXPECT_EQ(verdict.what, What::never);
    EXPECT_EQ(verdict.kind, ErrorKind::data);
    return verdict.cause;
  };
  EXPECT_NE(said(reply(404, "NoSuchKey")).find("no such object at s3.example.org"), std::string::npos);
  EXPECT_NE(said(reply(404, "NoSuchBucket")).find("no such bucket"), std::string::npos);
  EXPECT_NE(said(reply(403, "AccessDenied")).find("'KEYID' may not read it"), std::string::npos);
  EXPECT_NE(said(reply(403, "SignatureDoesNotMatch")).find("is the secret key right?"), std::string::npos);
  EXPECT_NE(said(reply(403, "InvalidObjectState")).find("must be restored first"), std::string::npos);
}

// Not data, which would make every object a bad sample from then on.
TEST(Verdicts, BlameNoObjectForTheCredentialsOrTheClock) {
  const auto said = [](const HttpReply& answer) {
    const Verdict verdict = judge(answer, kAsked);
    EXPECT_EQ(verdict.what, What::never);
    EXPECT_EQ(verdict.kind, ErrorKind::storage);
    return verdict.cause;
  };
  EXPECT_NE(said(reply(400, "ExpiredToken")).find("credentials have run out"), std::string::npos);
  EXPECT_NE(said(reply(400, "TokenRefreshRequired")).find("credentials have run out"), std::string::npos);
  EXPECT_NE(said(reply(403, "InvalidAccessKeyId")).find("the key id 'KEYID' is unknown"), std::string::npos);
  HttpReply skewed = reply(403, "RequestTimeTooSkewed");
  skewed.head.headers["date"] = "Sat, 21 Nov 2026";
  EXPECT_NE(said(skewed).find("clock is wrong; the server's time is Sat, 21 Nov 2026"), std::string::npos);
}

TEST(Verdicts, NameTheRightRegion) {
  const std::string advice = "is in the region 'eu-west-1', but 'us-east-1' is set: set AWS_REGION=eu-west-1";
  HttpReply moved = reply(301, "PermanentRedirect");
  moved.head.headers["x-amz-bucket-region"] = "eu-west-1";
  EXPECT_NE(judge(moved, kAsked).cause.find(advice), std::string::npos) << judge(moved, kAsked).cause;
  const Verdict malformed = judge(reply(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"), kAsked);
  EXPECT_EQ(malformed.what, What::never);
  EXPECT_NE(malformed.cause.find(advice), std::string::npos) << malformed.cause;
  const Verdict elsewhere = judge(reply(307, "TemporaryRedirect", "<Endpoint>other.example.org</Endpoint>"), kAsked);
  EXPECT_NE(elsewhere.cause.find("redirects, to other.example.org"), std::string::npos) << elsewhere.cause;
}

TEST(Verdicts, SayWhenCredentialsHaveRunOut) {
  const Verdict verdict = judge(reply(400, "ExpiredToken"), kAsked);
  EXPECT_EQ(verdict.what, What::never);
  EXPECT_TRUE(verdict.expired);
}

TEST(Verdicts, AreFinalForAReplacedObject) {
  const Verdict verdict = judge(reply(412, "PreconditionFailed"), kAsked);
  EXPECT_EQ(verdict.what, What::never);
  EXPECT_EQ(verdict.kind, ErrorKind::storage);
}

}  // namespace
}  // namespace millrace::s3
