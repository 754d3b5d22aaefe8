// Hides passwords and keys in URLs within a text.
#pragma once

#include <string>

namespace millrace {

// Replaces by "***": passwords ("https://me:***@host/x"), names alone before an '@', which are keys, and values of parameters
// such as `token` or `X-Amz-Signature`. All output for people and logs passes through this: Errors, standard error, lines of
// JSON, and samples' places in tables of predictions (Predictions::Sample::append_place()).
std::string without_secrets(std::string text);

}  // namespace millrace
