// Completions for the word being typed in a shell. The scripts in tools/completion call each program as PROGRAM --complete
// WORD..., so that options and keys are declared in one place only.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace millrace {

struct OptionText {
  std::string name;        // "--devices"
  std::string value_name;  // "D"; empty: no value
  std::string text;
};

// Names that a program accepts in addition to files; called only on demand.
using KnownNames = std::function<std::vector<std::string>()>;

// One line per candidate: the word, a tab, its meaning. The line ":files" allows a file there. `words`: the command line after
// the program; the last one is being typed.
std::string completions(const std::vector<OptionText>& options, const KnownNames& names, const std::vector<std::string>& words);

}  // namespace millrace
