// Weights from a URL: fetched once into the user's cache folder, and read from there afterwards.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "millrace/plugin.h"

namespace millrace {

// Whether `weights` is a URL of a storage other than "file".
bool is_remote(std::string_view weights);

// The beginning of a SHA-256 in a file's name, in torchvision's form: "f37072fd" in "https://host/resnet18-f37072fd.pth". Lower
// case, at least eight digits; empty if there is none.
std::string hash_in_name(std::string_view url);

// Path of `url` in the cache folder: weights/HASH-NAME, with a hash of the URL. Throws Error(usage) without a folder.
std::string cached_weights(const std::string& url);

struct WeightsRequest {
  std::string weights;  // a path, file:///path, or any URL of a storage
  std::string sha256;   // expected sum, 64 hexadecimal digits; empty: any
};

// The path of a local file with these weights. Fetches a remote file unless it is in the cache folder, where it appears whole or
// not at all; if several processes need it, one fetches and the others wait. `announce` receives its address and size before.
// Then compares the file's SHA-256 with the given one or, for a remote file, with hash_in_name(). `doing` receives slow
// activities. A cached file with another sum is damaged, or has changed on the server: it is fetched again. Throws Error(data)
// with both sums if they still differ, and keeps nothing. Throws Error(usage) without a storage for the URL, a cache folder, or
// SHA-256 in this build; and the storage's errors.
std::string local_weights(const WeightsRequest& request, const Registry& registry, const std::function<void(std::string)>& doing,
                          const std::function<void(const std::string&)>& announce = {});

}  // namespace millrace
