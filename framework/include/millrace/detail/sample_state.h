// State of a sample that the framework and its own stages keep. Part of sample.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace millrace {

// Why a sample could not be used.
struct SampleFault {
  std::string stage;
  std::string cause;
};

struct SampleState {
  std::uint64_t content = 0;         // hash of the encoded bytes, target and numbers included
  std::uint64_t first_hash = 0;      // hash of position, index, label and content
  std::uint64_t hash = 0;            // likewise, with every draw so far
  std::optional<SampleFault> fault;  // set by the graph when a stage threw ErrorKind::content; later stages skip the sample
  bool cached = false;               // taken from a SampleCache: stages before it must leave it alone
  bool windowed = false;             // the record places the network's window in this image; see place_window()
  float noise = 0;                   // set by `batch` only, for the record: AugmentationRecord::noise
  std::uint32_t noise_seed = 0;      // likewise
};

}  // namespace millrace
