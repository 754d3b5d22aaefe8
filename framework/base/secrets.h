// Passwords and keys in the URLs of a text.
#pragma once

#include <string>

namespace millrace {

// The text with "***" in place of passwords ("https://me:***@host/x"), of names that stand alone before an '@', which are keys,
// and of the values of parameters such as `token` or `X-Amz-Signature`. Everything that people or logs are told goes through it:
// Errors, standard error, lines of JSON, and samples' places in tables of predictions (Predictions::Sample::append_place()).
std::string without_secrets(std::string text);

}  // namespace millrace
