// The sources of a mixture.
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
  std::optional<double> weight;      // as configured
  std::uint64_t begin = 0, end = 0;  // its range of the mixture's samples; known after open()
  std::vector<std::int32_t> labels;  // from its labels to the mixture's; empty if equal
};

// Makes a source from each table in `list`: `stage` names its type, `weight` belongs to the mixture, and the rest are its
// parameters. Errors go to `errors`, with their places in the file; the result is then unusable.
std::vector<Child> make_children(const Value& list, const StageSite& site, Diagnostics& errors);

// The classes of all sources, and each child's `labels`: one list if all have the same, otherwise every name once, sorted
// bytewise. Throws ErrorKind::usage if only some have classes.
std::vector<std::string> unite_classes(std::vector<Child>& children);

}  // namespace millrace
