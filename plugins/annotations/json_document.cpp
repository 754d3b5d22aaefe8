#include "json_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "text_values.h"

namespace millrace {

namespace {

class Elements {
 public:
  Elements(const std::string& file, const std::function<void(const JsonElement&)>& found) : file_(file), found_(found) {}

  // Returns whether the value is kept.
  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    constexpr std::size_t kLong = 4096;
    using Event = Json::parse_event_t;
    if (depth == 0 && event == Event::array_start) elements_ = 1;
    if (depth == 1 && event == Event::key) {
      member_ = parsed.get<std::string>();
      index_ = 0;
    }
    if (depth == 1 && event == Event::value && parsed.is_string()) return parsed.get_ref<const std::string&>().size() < kLong;
    if (depth != elements_ || event != Event::object_end) return true;
    const JsonElement element{member_, index_++, parsed};
    try {
      found_(element);
    } catch (Error& error) {
      throw error.in(element.place(file_));
    } catch (const Json::exception&) {
      fail(ErrorKind::data, "{}: a value has an unexpected type", element.place(file_));
    }
    return false;
  }

  std::string last() const { return JsonElement{member_, index_, {}}.place(file_); }

 private:
  const std::string& file_;
  const std::function<void(const JsonElement&)>& found_;
  int elements_ = 2;  // their depth
  std::string member_;
  std::size_t index_ = 0;
};

const char* kind_of(const Json& value) {
  return value.is_null()      ? "null"
         : value.is_array()   ? "a list"
         : value.is_object()  ? "an object"
         : value.is_string()  ? "a text"
         : value.is_boolean() ? "true or false"
                              : "a number";
}

}  // namespace

std::string JsonElement::place(std::string_view file) const { return fmt::format("{}: {}[{}]", file, line_text(member), index); }

Json read_json(std::string_view text, const std::string& file, const std::function<void(const JsonElement&)>& found) {
  Elements elements(file, found);
  try {
    return Json::parse(text.begin(), text.end(),
                       [&](int depth, Json::parse_event_t event, Json& parsed) { return elements(depth, event, parsed); });
  } catch (const Json::parse_error& error) {
    const std::string_view before = text.substr(0, std::max<std::size_t>(error.byte, 1) - 1);
    const auto line = std::ranges::count(before, '\n') + 1;
    fail(ErrorKind::data, "{}:{}:{}: this is not JSON", file, line,
         before.size() - (before.rfind('\n') + 1) + 1);  // npos + 1 is 0
  } catch (const Json::out_of_range&) {
    fail(ErrorKind::data, "{}: a number is too large", elements.last());
  }
}

const Json& member(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) fail(ErrorKind::data, "'{}' is missing", key);
  return *found;
}

double number(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_number()) fail(ErrorKind::data, "'{}' must be a number, found {}", key, kind_of(value));
  return value.get<double>();
}

int whole_number(const Json& object, const char* key, int absent) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return absent;
  return whole_number(number(object, key));
}

std::string text_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) fail(ErrorKind::data, "'{}' must be a text, found {}", key, kind_of(value));
  return value.get<std::string>();
}

std::vector<double> numbers(const Json& array, std::string_view what) {
  if (!array.is_array()) fail(ErrorKind::data, "'{}' must be a list of numbers, found {}", what, kind_of(array));
  std::vector<double> values;
  values.reserve(array.size());
  for (const Json& value : array) {
    if (!value.is_number()) fail(ErrorKind::data, "{}[{}] must be a number, found {}", what, values.size(), kind_of(value));
    values.push_back(value.get<double>());
  }
  return values;
}

}  // namespace millrace
