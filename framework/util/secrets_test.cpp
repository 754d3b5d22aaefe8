#include "util/secrets.h"

#include <gtest/gtest.h>

#include "millrace/error.h"
#include "millrace/util/json_lines.h"
#include "millrace/util/standard_error.h"
#include "millrace/util/text.h"

namespace millrace {
namespace {

TEST(Secrets, AreNotInWhatIsSaid) {
  const auto said = [](const char* text) { return without_secrets(text); };
  EXPECT_EQ(said("cannot read 'https://me:pa55@host:80/a/b.tar': no answer"),
            "cannot read 'https://me:***@host:80/a/b.tar': no answer");
  EXPECT_EQ(said("https://me:p@ss@host/x"), "https://me:***@host/x");
  EXPECT_EQ(said("https://hf_abc@host/x and http://a:b@c/d"), "https://***@host/x and http://a:***@c/d");
  EXPECT_EQ(said("s3://bucket/x?X-Amz-Signature=abc&part=3&token=t&a=b"),
            "s3://bucket/x?X-Amz-Signature=***&part=3&token=***&a=b");
  EXPECT_EQ(said("https://h/x?api_key=k"), "https://h/x?api_key=***");
  EXPECT_EQ(said("https://h/x?access_token=1|s&private-key=t"), "https://h/x?access_token=***&private-key=***");
  EXPECT_EQ(said("https://h/x?hdnts=exp~hmac&session=1&code=q"), "https://h/x?hdnts=***&session=***&code=***");
  const std::string half = shown("ftp://me:" + std::string(300, 'p') + "@host/" + std::string(300, 'x'));
  EXPECT_TRUE(half.starts_with("ftp://me:***@host/xxx")) << half;
}

TEST(Secrets, NothingElseIsChanged) {
  for (const char* text : {"", "://", "https://", "https://host/x@y", "https://host/a?size=3&key=", "me:you@there", "a://b?",
                           "https://host/key=3", "'s3://bucket/a' and 'x@y'"}) {
    EXPECT_EQ(without_secrets(text), text);
  }
}

TEST(Secrets, AreInNoErrorNoLineOfJsonAndNotOnStandardError) {
  const std::string url = "https://me:pa55@host/x", masked = "https://me:***@host/x";
  EXPECT_EQ(Error(ErrorKind::data, url).in(url).what(), masked + ": " + masked);
  EXPECT_EQ(JsonLine().add("path", url).text(), "{\"path\":\"" + masked + "\"}");
  testing::internal::CaptureStderr();
  print_to_stderr("weights: {}\n", url);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weights: " + masked + "\n");
}

}  // namespace
}  // namespace millrace
