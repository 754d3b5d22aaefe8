// The keys that `--set` can change in a pipeline: those that its file says, and those that its stages and tables declare.
#pragma once

#include <string>
#include <vector>

namespace millrace {

class Registry;

struct SettableKey {
  std::string name;                  // "train.augment.flip_x"
  std::string value;                 // in TOML: what the file says, or the default; "": there is neither
  std::string text;                  // its meaning, where it is declared
  std::vector<std::string> choices;  // all that it may be; empty: anything of its type
};

// Those of a pipeline file or a base file, in the order of the names. The file need not be complete: nothing of it is checked.
// Throws Error(usage) where it cannot be read.
std::vector<SettableKey> settable_keys(const std::string& file, const Registry& registry);

}  // namespace millrace
