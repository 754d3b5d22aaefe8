// The base files that come with Millrace and that a pipeline extends, as in `extends = "classify"`. A user has not written them:
// a message about a line of theirs says first what the user wrote that led to it.
#pragma once

#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

struct BaseFiles {
  Position extends;                // where a file of the user's names the first of them; null where none does
  std::vector<std::string> files;  // as positions name them

  bool has(const Position& at) const;

  // "mine.toml:1:11, used in classify.toml:36:1" where a base file has `at`; else `at`.
  Position after_extends(const Position& at) const;

  // The same mistakes, each of a base file after what the user has written beside it: a key of --set, else the table in the
  // user's file, else `extends`. `document`: all files as they are merged. `set`: the keys of --set, as in {"train", "batch",
  // "size"}.
  Diagnostics after_users_text(const Diagnostics& errors, const Value& document,
                               const std::vector<std::vector<std::string>>& set) const;
};

// "mine.toml:7:8, used in classify.toml:36:1".
Position used_in(const std::string& place, const Position& at);

}  // namespace millrace
