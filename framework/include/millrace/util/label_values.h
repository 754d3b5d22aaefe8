// For sources of label images (TargetSpec::Kind::classes) that know which values are to be ignored.
#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/detail/target_spec.h"

namespace millrace {

// A Source may implement this too. For other sources, the known values are those with a class, and TargetSpec::ignored.
class NamesLabelValues {
 public:
  virtual ~NamesLabelValues() = default;

  // Whether the value is defined: it has a class, or is to be ignored. Valid after open().
  virtual bool names(std::uint8_t value) const = 0;
};

// Whether palette label images are read by their colours, like RGB ones: the classes have colours, and no values of their own
// (`ids`). Otherwise they are read by their indices. One rule for all files of a set, whose palettes may be ordered differently.
inline bool reads_palettes_by_colour(const TargetSpec& target, std::size_t colours) {
  for (std::size_t value = 0; value < target.classes.size(); ++value) {
    if (target.classes[value] != (value < colours ? value : target.ignored)) return false;
  }
  return colours > 0;
}

}  // namespace millrace
