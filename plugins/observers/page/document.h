// The page as one HTML file, with its style, its script and nothing from elsewhere.
#pragma once

#include <string>
#include <string_view>

namespace millrace::page {

// What a server sends. `nonce`: random, in the reply's Content-Security-Policy too, so that no script but ours runs.
std::string live_document(std::string_view nonce);
std::string policy_of(std::string_view nonce);

// What is kept of a run: `state` is Story::snapshot(), `pictures` a JSON object of data URLs by name. Nothing in them ends the
// element that they stand in.
std::string kept_document(std::string_view state, std::string_view pictures);

}  // namespace millrace::page
