// Trained weights that a network's file names, so that a pipeline takes them by one word, weights = "torchvision":
//
//   [published.torchvision]
//   url    = "https://download.pytorch.org/models/resnet18-f37072fd.pth"
//   sha256 = "..."                                   # 64 digits; without it the digits in the file's name are checked
//   rename = [{ from = "aux*", to = "" }]            # as in [network], for a file with other names
#pragma once

#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

struct PublishedWeights {
  std::string name, url;
  std::string sha256;  // "": not known
  Value rename;        // an array; a table without members: none
};

// From a network's document. Adds mistakes to `errors`.
std::vector<PublishedWeights> published_weights(const Value& document, Diagnostics& errors);

}  // namespace millrace
