// Rows in comments that a formatter has taken for a paragraph.
//
// clang-format breaks a comment's line that is too long and joins what is left of it to the next line. Where the lines are the
// rows of a table or an example, they are destroyed by that. .clang-format says which comments it leaves alone; others look like
// this:
//
//   words that are left over    the line before could not hold them, and the row goes on below them, indented deeper
//   two rows in one             `name   = value` in the middle of a line, or words before `name =` and a comment of the example
//   a row out of its columns    the line before could not hold its first word, and no column of the two is the same
#pragma once

#include <string>
#include <vector>

#include "walls.h"

namespace millrace::architecture {

// Line numbers, from 1, of comments in one source file that look so.
std::vector<int> reflowed_comments(const std::vector<std::string>& lines);
// Line numbers of comments that begin with "Of": they say of what, and not what. Asked of public headers and backends.
std::vector<int> fragments(const std::vector<std::string>& lines);

// Checks the sources of a tree.
Findings check_comments(const std::filesystem::path& root);

}  // namespace millrace::architecture
