// Names as text. Names of files, members and classes are untrusted bytes in any encoding, and may contain terminal controls. Code
// that stores or shows them uses one of these forms.
//
//   utf8_text("ni\xf1o")     ni\xf1o           for files: UTF-8 is unchanged; each byte that is not UTF-8 becomes \xNN
//   line_text("a\x1b[2J\n")  a\x1b[2J\x0a      for messages: one line without terminal controls
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

bool is_utf8(std::string_view bytes);

// UTF-8 is unchanged. In other texts each byte that is not UTF-8 becomes \xNN, as does a backslash that looks like the beginning
// of such an escape. bytes_of() reverses the escapes.
std::string utf8_text(std::string_view bytes);
std::string bytes_of(std::string_view escaped);

// One line of UTF-8: invalid bytes, control characters (including line breaks) and characters that change the writing direction
// become \xNN. Escaped text is unchanged.
std::string line_text(std::string_view text);

// line_text() of the first `most` bytes, followed by "..." if there are more. For texts from files and servers, which may be of
// any length.
std::string shown(std::string_view text, std::size_t most = 200);

// Like line_text(), but line breaks and tabs stay.
std::string terminal_text(std::string_view text);

std::string lower_case(std::string_view text);  // ASCII letters only

// Strips surrounding blanks, line ends and a UTF-8 byte order mark, which other programs write into tables and lists.
std::string_view trimmed(std::string_view text);

// Removes the first line from `text`, with its end: LF, CR LF or CR. REQUIRES: text is not empty.
std::string_view next_line(std::string_view& text);

}  // namespace millrace
