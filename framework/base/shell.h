// Commands that messages tell a user to type.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// A word as a POSIX shell has to read it: in quotes where it would take the word apart or replace something in it.
std::string shell_word(std::string_view word);
std::string shell_text(const std::vector<std::string>& words);

}  // namespace millrace
