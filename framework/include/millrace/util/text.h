// Names as text. Names of files, members and classes are bytes that others chose: they may be in any encoding, and hold what
// controls a terminal. All that stores or shows them uses one of these forms.
//
//   utf8_text("ni\xf1o")     ni\xf1o           for files: UTF-8 stays as it is; else each byte that is none becomes \xNN
//   line_text("a\x1b[2J\n")  a\x1b[2J\x0a      for messages: one line that controls no terminal
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

bool is_utf8(std::string_view bytes);

// The bytes as they are where they are UTF-8. Else each byte that is none becomes \xNN, and a backslash where it looks like the
// beginning of such an escape. bytes_of() turns what was escaped back.
std::string utf8_text(std::string_view bytes);
std::string bytes_of(std::string_view escaped);

// One line of UTF-8: bytes that are none, of control characters (with line breaks), and of characters that turn the direction
// of writing become \xNN. A text that has been escaped stays as it is.
std::string line_text(std::string_view text);

// line_text() of the first `most` bytes; "..." stands for the rest. For texts of files and servers, which may be of any length.
std::string shown(std::string_view text, std::size_t most = 200);

// The same as line_text(), but line breaks and tabs stay.
std::string terminal_text(std::string_view text);

std::string lower_case(std::string_view text);  // of ASCII's letters; others stay

// Without blanks, line ends and the mark of a UTF-8 file around it, which other programs write into tables and lists.
std::string_view trimmed(std::string_view text);

// Cuts the first line off `text`, and its end: LF, CR LF or CR. REQUIRES: text is not empty.
std::string_view next_line(std::string_view& text);

}  // namespace millrace
