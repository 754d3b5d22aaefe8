// Reads an image's small members: its class, or the numbers to predict.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace millrace {

struct Label {
  enum class Kind {
    none,        // missing
    unreadable,  // present but invalid
    number,      // in the usual form: 7
    name,        // a class name; also 007
  };

  Kind kind = Kind::none;
  std::int32_t number = 0;
  std::string name;  // the class name; if unreadable, the text found
};

inline constexpr std::size_t kLongestClassName = 200;
inline constexpr std::int32_t kLargestLabel = 999'999;

// Parses a .cls member: a number or a class name, ignoring surrounding white space.
Label label_of_text(std::string_view text);

// Member `field` of the object in a .json member: a whole number, such as 3 or 3.0, or a name.
Label label_of_json(std::span<const std::uint8_t> json, const std::string& field);

// Parses numbers the same way: one, or a list. Empty if there are none, or not only numbers.
std::vector<float> numbers_of_json(std::span<const std::uint8_t> json, const std::string& field);

// The names of the object's members, at most `most`; empty if the bytes are not an object.
std::vector<std::string> fields_of_json(std::span<const std::uint8_t> json, std::size_t most);

}  // namespace millrace
