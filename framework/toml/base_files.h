// Base files shipped with Millrace that a pipeline extends, as in `extends = "classify"`. A user has not written them: a message
// about one of their lines first gives the user's text that led to it.
#pragma once

#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

struct BaseFiles {
  Position extends;                // where a user's file names the first of them; null if none does
  std::vector<std::string> files;  // as in positions

  bool has(const Position& at) const;

  // "mine.toml:1:11, used in classify.toml:36:1" if `at` is in a base file; else `at`.
  Position after_extends(const Position& at) const;

  // The same mistakes, with those in base files placed after the user's related text: a key of --set, else the table in the
  // user's file, else `extends`. `document`: all files merged. `set`: the keys of --set, such as {"train", "batch", "size"}.
  Diagnostics after_users_text(const Diagnostics& errors, const Value& document,
                               const std::vector<std::vector<std::string>>& set) const;
};

// "mine.toml:7:8, used in classify.toml:36:1".
Position used_in(const std::string& place, const Position& at);

}  // namespace millrace
