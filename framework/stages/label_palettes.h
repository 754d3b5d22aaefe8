// The colours that stand for the values of palette label images. A value is an index into the palette of its own file: programs
// that sort or shorten palettes give one colour another index in each file, and then one value means several classes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "millrace/sample.h"

namespace millrace {

class LabelPalettes {
 public:
  // Takes the colours of the values that `labels` has, where `file` is a PNG with a palette. `place` is for the message.
  void add(std::span<const std::uint8_t> file, ImageView labels, const std::string& place);

  // "value 1 is #800000 in 'a.png' and #008000 in 'b.png'", of the first such value; "": no value has two colours.
  const std::string& difference() const { return difference_; }

 private:
  struct Seen {
    std::string colour, place;
  };
  std::array<std::optional<Seen>, 256> seen_;  // by value
  std::string difference_;
};

}  // namespace millrace
