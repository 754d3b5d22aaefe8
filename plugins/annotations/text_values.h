// Numbers and fields in texts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

std::optional<double> parsed_number(std::string_view text);  // the whole text, without blanks around it
int whole_number(double value);                              // a width or height; ErrorKind::data for what is not a whole number
std::vector<std::string_view> split(std::string_view text, char by);  // parts may be empty
std::vector<std::string_view> words(std::string_view text);           // separated by blanks and tabs

// The numbers of a text such as "1.5,2;3,4". Throws ErrorKind::data, which names `what`, for others.
std::vector<double> listed_numbers(std::string_view text, std::string_view separators, std::string_view what);

}  // namespace millrace
