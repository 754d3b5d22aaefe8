// AWS credentials.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shared.h"

namespace millrace::s3 {

struct Credentials {
  std::string id, secret;
  std::string token;  // for temporary credentials
  friend bool operator==(const Credentials&, const Credentials&) = default;
};

// One profile of a shared credentials file; empty if missing. Throws ErrorKind::data, naming `path` and the line, if the profile
// lacks its id or secret, or a line is not "[profile]", "key = value" or a comment.
std::optional<Credentials> parse_credentials(std::string_view file, const std::string& profile, const std::string& path);

// In this order: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; the profile AWS_PROFILE (or "default") of
// AWS_SHARED_CREDENTIALS_FILE (or ~/.aws/credentials). Throws ErrorKind::data, listing these places, if there are none.
Credentials find_credentials(const Environment& environment);

}  // namespace millrace::s3
