// The properties of training images as files, before preparation. Stored in the metadata of a file of weights, under the key
// "images", as TOML:
//
//   looked_at = 256                 # files, evenly spread over the listing
//   height    = [480, 480]          # the least and the most
//   width     = [640, 640]
//   aspect    = [1.3333, 1.3333]    # width over height
//   mean      = [0.31, 0.52]        # an image's values, 0 ... 1
//   deviation = [0.11, 0.24]
//   channels  = [1]                 # all that were seen
//   bits      = [8]
//
// It depends only on the data, not on threads, ranks, caches or resuming. Files of older versions have none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/util/image_facts.h"
#include "prepare/graph_build.h"

namespace millrace {

struct ImageSummary {
  static constexpr const char* kKey = "images";  // in the metadata
  struct Extent {
    double least = 0, most = 0;
  };

  std::uint64_t looked_at = 0;
  Extent height = {}, width = {}, aspect = {}, mean = {}, deviation = {};
  std::set<int> channels = {}, bits = {};

  void add(const ImageFacts& facts);
  void add(const ImageSummary& other);
  std::string text() const;  // "height 480, width 640, ..., channels 1, bits 8"
  // How an image differs from the summary: "channels (3, in training 1)". Empty if it does not. Sizes and levels may exceed the
  // range of training by a share of it.
  std::vector<std::string> differences(const ImageFacts& facts) const;
};

std::map<std::string, std::string> metadata_of(const ImageSummary& summary);
// Empty if there is none, or if the text is invalid: metadata are untrusted.
std::optional<ImageSummary> image_summary_from(const std::map<std::string, std::string>& metadata);

// The stage that decodes a graph's files; null if there is none.
const KnowsImageFacts* file_decoder(const GraphBuild& build);

// Reads `most` of the graph's files, evenly spread over its listing, on several threads; calls `take` in listing order. Skips
// unreadable files. Returns the number of samples; 0 if no stage of the graph decodes files.
std::uint64_t check_files(const GraphBuild& build, std::uint64_t most, unsigned threads,
                          const std::function<void(const std::string& place, const ImageFacts& facts)>& take);

// Empty if no stage decodes files, or none could be read.
std::optional<ImageSummary> summary_of_files(const GraphBuild& build, unsigned threads);

// Compares `most` of the graph's images with the summary. Returns a sentence with the number of differing ones, and the first
// one for each reason; "" if there are none.
std::string unlike_images(const ImageSummary& summary, const GraphBuild& build, std::uint64_t most, unsigned threads);

}  // namespace millrace
