// Quotes commands in messages for the user to type.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// A word for a POSIX shell: quoted if the shell would split it or replace something in it.
std::string shell_word(std::string_view word);
std::string shell_text(const std::vector<std::string>& words);

}  // namespace millrace
