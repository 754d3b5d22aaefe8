#include "credentials.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "millrace/error.h"

namespace millrace::s3 {

namespace {

std::string_view strip(std::string_view text) {
  static constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string* member(Credentials& credentials, std::string_view key) {
  if (key == "aws_access_key_id") return &credentials.id;
  if (key == "aws_secret_access_key") return &credentials.secret;
  if (key == "aws_session_token") return &credentials.token;
  return nullptr;  // others, such as region, are not needed
}

std::string credentials_path(const Environment& environment) {
  const std::string named = environment("AWS_SHARED_CREDENTIALS_FILE");
  if (!named.empty()) return named;
  const std::string home = environment("HOME");
  return home.empty() ? std::string() : home + "/.aws/credentials";
}

}  // namespace

std::optional<Credentials> parse_credentials(std::string_view file, const std::string& profile, const std::string& path) {
  std::optional<Credentials> found;
  bool inside = false;
  int number = 0;
  while (!file.empty()) {
    const std::size_t end = std::min(file.find('\n'), file.size());
    const std::string_view raw = file.substr(0, end);
    const std::string_view line = strip(raw);
    file.remove_prefix(std::min(end + 1, file.size()));
    ++number;
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      if (line.back() != ']') fail(ErrorKind::data, "{}:{}: expected [profile], found '['without ']'", path, number);
      inside = strip(line.substr(1, line.size() - 2)) == profile;
      if (inside && !found) found.emplace();
      continue;
    }
    if (!inside || raw.front() == ' ' || raw.front() == '\t') continue;  // indented: nested settings of the AWS tools
    const std::size_t equals = line.find('=');
    // The line may be a misplaced secret, so the message omits it.
    if (equals == line.npos) fail(ErrorKind::data, "{}:{}: expected 'key = value'", path, number);
    if (std::string* target = member(*found, strip(line.substr(0, equals)))) *target = strip(line.substr(equals + 1));
  }
  if (found && (found->id.empty() || found->secret.empty())) {
    fail(ErrorKind::data, "{}: profile '{}' has no {}", path, profile,
         found->id.empty() ? "aws_access_key_id" : "aws_secret_access_key");
  }
  return found;
}

Credentials find_credentials(const Environment& environment) {
  Credentials credentials{environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
                          environment("AWS_SESSION_TOKEN")};
  if (!credentials.id.empty() && !credentials.secret.empty()) return credentials;
  if (credentials.id.empty() != credentials.secret.empty()) {
    fail(ErrorKind::data, "{} is set and {} is not: S3 needs both",
         credentials.id.empty() ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID",
         credentials.id.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");
  }
  std::string profile = environment("AWS_PROFILE");
  if (profile.empty()) profile = "default";
  const std::string path = credentials_path(environment);
  std::string reason = "HOME is not set, so no file is known";
  if (!path.empty()) {
    errno = 0;
    std::ifstream stream(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    if (!stream.is_open()) {
      reason = fmt::format("file '{}': {}", path, std::strerror(errno));
    } else if (auto found = parse_credentials(text, profile, path)) {
      return *found;
    } else {
      reason = fmt::format("file '{}' has no such profile", path);
    }
  }
  fail(ErrorKind::data,
       "no credentials for S3: looked for AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment and for the profile "
       "'{}' of the "
       "shared credentials file ({})",
       profile, reason);
}

}  // namespace millrace::s3
