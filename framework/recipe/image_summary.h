// What the images of a training were as files, before anything prepared them. It stands in the metadata of a file of weights,
// under the key "images", as TOML:
//
//   looked_at = 256                 # files, evenly spread over the listing
//   height    = [480, 480]          # the least and the most
//   width     = [640, 640]
//   aspect    = [1.3333, 1.3333]    # width over height
//   mean      = [0.31, 0.52]        # of an image's values, 0 ... 1
//   deviation = [0.11, 0.24]
//   channels  = [1]                 # all that were seen
//   bits      = [8]
//
// It depends on the data alone: not on threads, ranks, caches, or where a run was resumed. Files of older versions have none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/util/image_facts.h"
#include "stages/build.h"

namespace millrace {

struct ImageSummary {
  static constexpr const char* kKey = "images";  // of the metadata
  struct Extent {
    double least = 0, most = 0;
  };

  std::uint64_t looked_at = 0;
  Extent height = {}, width = {}, aspect = {}, mean = {}, deviation = {};
  std::set<int> channels = {}, bits = {};

  void add(const ImageFacts& facts);
  void add(const ImageSummary& other);
  std::string text() const;  // "height 480, width 640, ..., channels 1, bits 8"
  // In what an image is unlike those of the summary: "channels (3, in training 1)". Empty: it is like them. Sizes and levels may
  // lie somewhat outside, by how far those of the training lie apart.
  std::vector<std::string> differences(const ImageFacts& facts) const;
};

std::map<std::string, std::string> metadata_of(const ImageSummary& summary);
// Nothing where there is none, or a text that is none: metadata are anybody's.
std::optional<ImageSummary> image_summary_from(const std::map<std::string, std::string>& metadata);

// The stage that decodes the files of a graph; null: none does.
const KnowsImageFacts* file_decoder(const GraphBuild& build);

// Looks at `most` files of what the graph reads, evenly spread over its listing, on some threads; `take` is called in the order
// of the listing. Files that cannot be read are left out. Returns how many samples there are; 0: no stage of the graph decodes
// files.
std::uint64_t look_at_files(const GraphBuild& build, std::uint64_t most, unsigned threads,
                            const std::function<void(const std::string& place, const ImageFacts& facts)>& take);

// Nothing: no stage decodes files, or none could be read.
std::optional<ImageSummary> summary_of_files(const GraphBuild& build, unsigned threads);

// A sentence that counts the images of the graph which are unlike those of the summary, and names the first one for each reason;
// "": all are like them. `most` are looked at.
std::string unlike_images(const ImageSummary& summary, const GraphBuild& build, std::uint64_t most, unsigned threads);

}  // namespace millrace
