// For sources of label images (TargetSpec::Kind::classes) that know which of their values are meant to count nowhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/detail/target_spec.h"

namespace millrace {

// A Source implements this too. Of another source's values, those that have a class are known, and TargetSpec::ignored.
class NamesLabelValues {
 public:
  virtual ~NamesLabelValues() = default;

  // Whether somebody has said what the value means: it is of a class, or is to be ignored. Valid after open().
  virtual bool names(std::uint8_t value) const = 0;
};

// Whether palette label images are read by their colours, as those in RGB: the classes have colours, and no values of their own
// (`ids`). By their indices otherwise. One rule for all files of a set, whose palettes may have other orders.
inline bool reads_palettes_by_colour(const TargetSpec& target, std::size_t colours) {
  for (std::size_t value = 0; value < target.classes.size(); ++value) {
    if (target.classes[value] != (value < colours ? value : target.ignored)) return false;
  }
  return colours > 0;
}

}  // namespace millrace
