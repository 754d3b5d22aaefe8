// For sources of label images (TargetSpec::Kind::classes) that know which of their values are meant to count nowhere.
#pragma once

#include <cstdint>

namespace millrace {

// A Source implements this too. Of another source's values, those that have a class are known, and TargetSpec::ignored.
class NamesLabelValues {
 public:
  virtual ~NamesLabelValues() = default;

  // Whether somebody has said what the value means: it is of a class, or is to be ignored. Valid after open().
  virtual bool names(std::uint8_t value) const = 0;
};

}  // namespace millrace
