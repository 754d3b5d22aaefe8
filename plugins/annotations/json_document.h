// JSON of any length, read element by element.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace millrace {

using Json = nlohmann::json;

struct JsonElement {
  const std::string& member;  // the member of the document that contains it; empty if the document is an array
  std::size_t index = 0;      // its position in there
  const Json& value;

  std::string place(std::string_view file) const;  // "train.json: annotations[3]"
};

// Calls `found` for each object in the arrays of a document, or in the document if it is an array, and then drops it: the memory
// is that of the largest. Returns the rest of the document, in which long texts are left out. Adds file and position to errors of
// `found`, and throws ErrorKind::data with the line for what is not JSON.
Json read_json(std::string_view text, const std::string& file, const std::function<void(const JsonElement&)>& found);

// Values of members. Throw ErrorKind::data with the member's name for another type, or if it is missing; `absent` if given.
const Json& member(const Json& object, const char* key);
double number(const Json& object, const char* key);
int whole_number(const Json& object, const char* key, int absent);
std::string text_of(const Json& object, const char* key);
std::vector<double> numbers(const Json& array, std::string_view what);

}  // namespace millrace
