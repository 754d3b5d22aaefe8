// Characters in bytes that may not be valid text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

struct Character {
  std::size_t bytes = 0;  // 0: not UTF-8
  char32_t code = 0;
};

// REQUIRES: text is not empty.
// Source: Unicode 15, table 3-7: well-formed byte sequences.
Character first_character(std::string_view text);

// Control characters (7-bit and 8-bit, including line breaks), and those that change the writing direction.
bool upsets_terminal(char32_t code);

// A file name as unambiguous text: each byte that is not UTF-8 becomes \xNN, and a backslash that would look like such an escape
// becomes \x5c. bytes_of() (text.h) reverses this. In contrast, utf8_text() leaves UTF-8 names unchanged, even if they look
// escaped.
void append_name(std::string& text, std::string_view name);
std::string name_text(std::string_view name);

// A table cell that is safe to open in a spreadsheet: one line of UTF-8 that no spreadsheet interprets as a formula. These become
// \xNN: bytes that are not UTF-8, control characters, and =, +, - or @ at the beginning of a cell, unless the text is a number.
// Existing escapes stay, so bytes_of() turns the cell of an append_name() into the name. A cell may also begin after a semicolon,
// the separator where numbers have a decimal comma. Source: OWASP, CSV Injection, which would prepend an apostrophe; that could
// not be distinguished from one in the name.
void append_cell(std::string& line, std::string_view text);

}  // namespace millrace
