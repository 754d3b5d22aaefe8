// The colours that stand for the values of palette label images. A value is an index into the palette of its own file: programs
// that sort or shorten palettes give one colour another index in each file, and then one value means several classes. Where
// classes have colours, a value may have the colour of another class than its own.
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
  // `colours`: of the classes, "#rrggbb", or none.
  LabelPalettes(const TargetSpec& target, std::vector<std::string> classes, std::vector<std::string> colours)
      : target_(&target), classes_(std::move(classes)), colours_(std::move(colours)) {}

  // Takes the colours of the values that `labels` has, where `file` is a PNG that is read by its values: one with a palette, or
  // grey. `place` is for the message.
  void add(std::span<const std::uint8_t> file, ImageView labels, const std::string& place);

  // "value 1 is #800000 in 'a.png' and #008000 in 'b.png'", of the first such value; "": no value has two colours.
  const std::string& difference() const { return difference_; }
  // "value 1 is #800000 in 'a.png', which is the colour of class 'car'", of the first value that is of another class, or of none;
  // "": there is none. Grey values are seldom meant as colours, unless no class has the value, or other files are in colours.
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
  bool has_colours_ = false;  // some files are read by them
};

}  // namespace millrace
