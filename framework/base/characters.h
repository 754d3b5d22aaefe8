// Characters in bytes that may be no text at all.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

struct Character {
  std::size_t bytes = 0;  // 0: what stands there is no UTF-8
  char32_t code = 0;
};

// REQUIRES: text is not empty.
// Source: Unicode 15, table 3-7: well-formed byte sequences.
Character first_character(std::string_view text);

// Control characters (of seven and of eight bits, line breaks too), and those that turn the direction of writing.
bool upsets_terminal(char32_t code);

// The name of a file as text, which no other file's name has: each byte that is no UTF-8 becomes \xNN, and in each name a
// backslash that would look like such an escape becomes \x5c. bytes_of() (text.h) turns it back. utf8_text() leaves names alone
// that are UTF-8, as a text that has been escaped is.
void append_name(std::string& text, std::string_view name);
std::string name_text(std::string_view name);

// A text as a cell of a table that people may open in a spreadsheet: one line of UTF-8 that no spreadsheet takes for a formula.
// What must not stand there becomes \xNN: bytes that are no UTF-8, control characters, and =, +, - or @ where a cell begins,
// unless the text is a number. What has been escaped stays, so bytes_of() turns the cell of an append_name() into the name. A
// cell may also begin after a semicolon, which separates cells where numbers have a comma. Source: OWASP, CSV Injection, which
// would put an apostrophe in front; an apostrophe could not be told from one of the name's own.
void append_cell(std::string& line, std::string_view text);

}  // namespace millrace
