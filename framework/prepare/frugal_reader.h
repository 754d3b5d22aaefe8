// Reads a few samples before a run, as long as that is cheap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/storage.h"
#include "prepare/graph_build.h"

namespace millrace {

// Reads samples from their source: at most 192, and fewer if they are large or in remote storage.
class FrugalReader {
 public:
  // False if the sample is unreadable, or the limit is reached.
  bool read(const GraphBuild& build, std::uint64_t index, Sample& sample) {
    if (reads_ >= most_ || bytes_ >= kMaxBytes) return false;
    ++reads_;
    if (!build.data().read_sample(index, sample).empty()) return false;
    bytes_ += sample.encoded.size();
    if (url_scheme(sample.url) != "file") most_ = kMaxRemoteReads;
    return true;
  }

 private:
  static constexpr std::size_t kMaxReads = 192, kMaxRemoteReads = 8;  // a remote read costs a request
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
  std::size_t reads_ = 0, most_ = kMaxReads;
  std::uint64_t bytes_ = 0;
};

}  // namespace millrace
