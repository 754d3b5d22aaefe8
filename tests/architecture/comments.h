// Detects comment rows that a formatter has joined into a paragraph.
//
// clang-format breaks a comment line that is too long and joins the rest to the next line. This destroys rows of tables and
// examples. .clang-format sets the comments that it leaves alone; in others the damage looks like this:
//
//   words that are left over    the line before could not hold them, and the row goes on below them, indented deeper
//   two rows in one             `name   = value` in the middle of a line, or words before `name =` and a comment of the example
//   a row out of its columns    the line before could not hold its first word, and no column of the two is the same
#pragma once

#include <string>
#include <vector>

#include "walls.h"

namespace millrace::architecture {

// Line numbers, from 1, of such comments in one source file.
std::vector<int> reflowed_comments(const std::vector<std::string>& lines);
// Line numbers of comments that begin with "Of", which lack a subject. Applied to public headers and backends.
std::vector<int> fragments(const std::vector<std::string>& lines);

// Checks the sources of a tree.
Findings check_comments(const std::filesystem::path& root);

}  // namespace millrace::architecture
