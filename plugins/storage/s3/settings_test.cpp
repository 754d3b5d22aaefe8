#include "settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace::s3 {
namespace {

Environment with(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  };
}

std::string complaint(const std::function<void()>& act, ErrorKind kind) {
  return testkit::error_of(kind, [&] { act(); }).message();
}

const std::string kFile =
    "# comment\n"
    "[default]\n"
    "aws_access_key_id = ID1\r\n"
    "aws_secret_access_key=a/b+c=d\n"
    "region = eu-west-1\n"
    "s3 =\n"
    "  max_concurrent_requests 20\n"
    "\n"
    "[ other ]\n"
    "  \n"
    "aws_access_key_id =ID2\n"
    "aws_secret_access_key = S2\n"
    "aws_session_token = T2\n"
    "[half]\n"
    "aws_access_key_id = ID3";

TEST(CredentialsFile, HasProfiles) {
  const Credentials first{"ID1", "a/b+c=d", ""}, second{"ID2", "S2", "T2"};
  EXPECT_EQ(parse_credentials(kFile, "default", "f"), first);
  EXPECT_EQ(parse_credentials(kFile, "other", "f"), second);
  EXPECT_EQ(parse_credentials(kFile, "none", "f"), std::nullopt);
  EXPECT_EQ(parse_credentials("", "default", "f"), std::nullopt);
}

TEST(CredentialsFile, NamesWhatIsWrongAndNoSecret) {
  EXPECT_MESSAGE(complaint([] { parse_credentials(kFile, "half", "f"); }, ErrorKind::data));
  EXPECT_EQ(complaint([] { parse_credentials("[a]\nSECRET", "a", "f"); }, ErrorKind::data), "f:2: expected 'key = value'");
  EXPECT_NE(complaint([] { parse_credentials("[a\n", "a", "f"); }, ErrorKind::data).find("f:1: expected [profile]"),
            std::string::npos);
}

TEST(CredentialsSearch, TakesTheEnvironmentFirst) {
  const Credentials expected{"ID", "S", "T"};
  EXPECT_EQ(find_credentials(with({{"AWS_ACCESS_KEY_ID", "ID"}, {"AWS_SECRET_ACCESS_KEY", "S"}, {"AWS_SESSION_TOKEN", "T"}})),
            expected);
}

TEST(CredentialsSearch, TakesTheFileNext) {
  const auto home = std::filesystem::path(testing::TempDir()) / ("storage_s3_home_" + std::to_string(getpid()));
  std::filesystem::create_directories(home / ".aws");
  std::ofstream(home / ".aws/credentials") << kFile;
  EXPECT_EQ(find_credentials(with({{"HOME", home.string()}})).id, "ID1");
  EXPECT_EQ(find_credentials(with({{"HOME", home.string()}, {"AWS_PROFILE", "other"}})).id, "ID2");
  EXPECT_EQ(find_credentials(with({{"AWS_SHARED_CREDENTIALS_FILE", (home / ".aws/credentials").string()}})).id, "ID1");
  const std::string said = complaint(
      [&] {
        find_credentials(with({{"HOME", home.string()}, {"AWS_PROFILE", "x"}}));
      },
      ErrorKind::data);
  EXPECT_NE(said.find("profile 'x'"), std::string::npos) << said;
  EXPECT_NE(said.find("has no such profile"), std::string::npos) << said;
  std::filesystem::remove_all(home);
}

TEST(CredentialsSearch, SaysWhatItLookedFor) {
  const std::string said = complaint([] { find_credentials(with({{"HOME", "/nowhere"}})); }, ErrorKind::data);
  for (const char* part :
       {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "'default'", "/nowhere/.aws/credentials", "No such file"}) {
    EXPECT_NE(said.find(part), std::string::npos) << part << ": " << said;
  }
  EXPECT_MESSAGE(complaint([] { find_credentials(with({{"AWS_ACCESS_KEY_ID", "ID"}})); }, ErrorKind::data));
}

TEST(Settings, ComeFromTheEnvironment) {
  const Settings settings = read_settings(with({{"AWS_ENDPOINT_URL", "http://a"},
                                                {"AWS_ENDPOINT_URL_S3", "http://b"},
                                                {"AWS_DEFAULT_REGION", "eu-west-3"},
                                                {"MILLRACE_S3_TIMEOUT", "1.5"},
                                                {"MILLRACE_S3_ATTEMPTS", "3"},
                                                {"MILLRACE_S3_CACHE", "/tmp/x"},
                                                {"MILLRACE_S3_CACHE_SIZE", "2 GiB"}}));
  EXPECT_EQ(settings.endpoint, "http://b");
  EXPECT_EQ(settings.region, "eu-west-3");
  EXPECT_EQ(settings.retry.deadline.count(), 1500);
  EXPECT_EQ(settings.retry.attempts, 3);
  EXPECT_EQ(settings.cache, "/tmp/x");
  EXPECT_EQ(settings.cache_size, 2ULL << 30);
  EXPECT_EQ(read_settings(with({})).region, "us-east-1");
}

TEST(Settings, NameTheVariableThatIsWrong) {
  for (const auto& [name, value] : std::map<std::string, std::string>{{"MILLRACE_S3_TIMEOUT", "soon"},
                                                                      {"MILLRACE_S3_ATTEMPTS", "0"},
                                                                      {"MILLRACE_S3_CACHE_SIZE", "10 apples"},
                                                                      {"MILLRACE_S3_CACHE", "~/cache"},
                                                                      {"MILLRACE_S3_STALL_TIMEOUT", "-1"},
                                                                      {"MILLRACE_S3_PARALLEL", "1e9"},
                                                                      {"AWS_REGION", "eu west"}}) {
    const std::string said = complaint(
        [&, name = name, value = value] {
          read_settings(with({{name, value}}));
        },
        ErrorKind::usage);
    EXPECT_NE(said.find(name + " = '" + value + "'"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace millrace::s3
