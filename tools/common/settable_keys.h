// The keys that `--set` can change in a pipeline: those in its file, and those that its stages and tables declare.
#pragma once

#include <string>
#include <vector>

namespace millrace {

class Registry;

struct SettableKey {
  std::string name;                  // "train.augment.flip_x"
  std::string value;                 // in TOML: the file's, or the default; "" if there is neither
  std::string text;                  // its description, if declared
  std::vector<std::string> choices;  // all allowed values; empty: any of its type
};

// The keys of a pipeline or base file, sorted by name. The file may be incomplete: nothing is checked. Throws Error(usage) if it
// is unreadable.
std::vector<SettableKey> settable_keys(const std::string& file, const Registry& registry);

}  // namespace millrace
