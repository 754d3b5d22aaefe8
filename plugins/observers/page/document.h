// The page as a single HTML file, with its style and script and no external resources.
#pragma once

#include <string>
#include <string_view>

namespace millrace::page {

// The page from the server. `nonce`: random, also in the reply's Content-Security-Policy, so that only our script runs.
std::string live_document(std::string_view nonce);
std::string policy_of(std::string_view nonce);

// The page kept after a run: `state` is Story::snapshot(), `pictures` a JSON object of data URLs by name. Neither can end the
// element that contains it.
std::string kept_document(std::string_view state, std::string_view pictures);

}  // namespace millrace::page
