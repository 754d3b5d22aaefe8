// The sources that a mixture is made of.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/source.h"
#include "millrace/stage.h"

namespace millrace {

struct Child {
  std::shared_ptr<Source> source;
  std::string name;                  // "sources[0]"
  std::optional<double> weight;      // as given
  std::uint64_t begin = 0, end = 0;  // its samples among all; known after open()
  std::vector<std::int32_t> labels;  // the mixture's label by its own; empty: the same
};

// Makes a source of each table in `list`: `stage` names its type, `weight` is the mixture's, and the rest are its parameters.
// Mistakes go to `errors`, at their places in the file; then the result is of no use.
std::vector<Child> make_children(const Value& list, const StageSite& site, Diagnostics& errors);

// The classes of all, and each child's `labels`: one list when all have the same, otherwise every name once, sorted bytewise.
// Throws ErrorKind::usage where only some have classes.
std::vector<std::string> unite_classes(std::vector<Child>& children);

}  // namespace millrace
