// Weights that a URL names: fetched once into the user's cache folder, and read from there ever after.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "millrace/plugin.h"

namespace millrace {

// Whether `weights` is a URL of another storage than "file".
bool is_remote(std::string_view weights);

// The beginning of a SHA-256 in a file's name, as torchvision names its files: "f37072fd" of
// "https://host/resnet18-f37072fd.pth". Lower case, at least eight digits; empty where the name has none.
std::string hash_in_name(std::string_view url);

// Where the file of `url` lies in the cache folder: weights/HASH-NAME, with a hash of the URL. Throws Error(usage) without a
// folder.
std::string cached_weights(const std::string& url);

struct WeightsRequest {
  std::string weights;  // a path, file:///path, or any URL that a storage reads
  std::string sha256;   // that the file must have, 64 hexadecimal digits; empty: any
};

// The path of a local file that holds these weights. What is remote is fetched unless it is in the cache folder, and appears
// there whole or not at all; of several processes one fetches, and the others wait for it. Then the file's SHA-256 is compared
// with the one given or, for what is remote, with hash_in_name(). `doing` is told what takes time. A file in
// the cache whose sum is another one is damaged, or was another one on the server: it is fetched again. Throws Error(data) that
// names both sums when they differ then, and keeps nothing. Throws Error(usage) when there is no storage for the URL,
// no cache folder, or no SHA-256 in this build; and what the storage throws.
std::string local_weights(const WeightsRequest& request, const Registry& registry, const std::function<void(std::string)>& doing);

}  // namespace millrace
