// What the small members beside an image say: its class, or the numbers to be predicted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace millrace {

struct Label {
  enum class Kind {
    none,        // nothing says it
    unreadable,  // what should say it cannot be understood
    number,      // as it is usually written: 7
    name,        // a class by its name; 007 as well
  };

  Kind kind = Kind::none;
  std::int32_t number = 0;
  std::string name;  // of the class; of what is unreadable, what was found
};

inline constexpr std::size_t kLongestClassName = 200;
inline constexpr std::int32_t kLargestLabel = 999'999;

// The text of a .cls member: a number, or a class name; white space around it does not count.
Label label_of_text(std::string_view text);

// Member `field` of the object that a .json member holds: a whole number, such as 3 or 3.0, or a name.
Label label_of_json(std::span<const std::uint8_t> json, const std::string& field);

// Numbers in the same way: one, or a list. Empty when there are none, or not only numbers.
std::vector<float> numbers_of_json(std::span<const std::uint8_t> json, const std::string& field);

// The names of the object's members, at most `most`; none where the bytes are no object.
std::vector<std::string> fields_of_json(std::span<const std::uint8_t> json, std::size_t most);

}  // namespace millrace
