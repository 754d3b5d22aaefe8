// The colours of values in palette label images. A value is an index into its own file's palette: programs that sort or shorten
// palettes give one colour different indices, so that one value means several classes. If classes have colours, a value may have
// another class's colour.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/sample.h"

namespace millrace {

class LabelPalettes {
 public:
  // `colours` of the classes, "#rrggbb"; may be empty.
  LabelPalettes(const TargetSpec& target, std::vector<std::string> classes, std::vector<std::string> colours)
      : target_(&target), classes_(std::move(classes)), colours_(std::move(colours)) {}

  // Adds the colours of the values in `labels` if `file` is a PNG that is read by values: one with a palette, or grey. `place`
  // is for the message.
  void add(std::span<const std::uint8_t> file, ImageView labels, const std::string& place);

  // The first value with two colours: "value 1 is #800000 in 'a.png' and #008000 in 'b.png'"; else "".
  const std::string& difference() const { return difference_; }
  // The first value whose colour belongs to another class, or to none: "value 1 is #800000 in 'a.png', which is the colour of
  // class 'car'"; else "". Grey values are seldom colours, unless no class has the value, or other files are in colours.
  const std::string& contradiction() const { return contradiction_.empty() && has_colours_ ? grey_ : contradiction_; }

 private:
  struct Seen {
    std::string colour, place;
  };
  void compare(std::size_t value, const Seen& here, bool is_grey);

  const TargetSpec* target_;
  std::vector<std::string> classes_, colours_;
  std::array<std::optional<Seen>, 256> seen_;  // by value
  std::string difference_, contradiction_, grey_;
  bool has_colours_ = false;  // some files have colours
};

}  // namespace millrace
