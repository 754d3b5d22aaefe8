// Implemented by sources that combine others.
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/source.h"

namespace millrace {

struct SourcePart {
  std::uint64_t size = 0;  // samples
  double weight = 1;
};

// A Source may implement this too. The parts' samples have consecutive indices; in an epoch each part is repeated according to
// its weight. No parts: every sample comes once.
class MadeOfParts {
 public:
  virtual ~MadeOfParts() = default;
  virtual std::vector<SourcePart> parts() const = 0;
};

inline std::vector<SourcePart> parts_of(const Source& source) {
  const auto* const made = dynamic_cast<const MadeOfParts*>(&source);
  return made == nullptr ? std::vector<SourcePart>() : made->parts();
}

}  // namespace millrace
