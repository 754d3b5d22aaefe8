// What a shell may write in place of the word that is being typed. The scripts in tools/completion ask each program for it, as
// PROGRAM --complete WORD..., so that options and keys stand where they are declared, and nowhere else.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace millrace {

struct OptionText {
  std::string name;        // "--devices"
  std::string value_name;  // "D"; empty: it takes none
  std::string text;
};

// Names that a program takes beside files; called only when they are asked for.
using KnownNames = std::function<std::vector<std::string>()>;

// A line for each candidate, the word and then, after a tab, its meaning. The line ":files" says that a file may stand there.
// `words`: those of the command line after the program, the last of which is being typed.
std::string completions(const std::vector<OptionText>& options, const KnownNames& names, const std::vector<std::string>& words);

}  // namespace millrace
