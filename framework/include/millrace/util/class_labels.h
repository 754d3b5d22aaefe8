// Interprets labels as class names or positions. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// The classes named by the labels of a whole data set.
struct LabelMeaning {
  std::vector<std::int32_t> classes;   // by label, if `unknown` is empty
  std::optional<std::size_t> unknown;  // a label that fits no class
  std::string advice;                  // the reason, to append to its message: "; ..."; may be empty
  std::string doubt;                   // a warning if labels are ambiguous; empty if they are not
};

enum class LabelsAre {
  names,            // names only
  names_first,      // or positions, unless all are names
  positions_first,  // or names, unless all are positions
};

// Interprets all labels in the same way: as names in `classes`, or as positions there, counted from 0 ("007" is 7). With classes
// "1", "2" and "3", the label 1 alone is ambiguous. `labels`: the distinct labels of the data set.
LabelMeaning meaning_of_labels(const std::vector<std::string>& labels, const std::vector<std::string>& classes,
                               LabelsAre which = LabelsAre::names_first);

// The position in a label of digits alone; empty for other texts, and beyond 999,999,999.
std::optional<std::int32_t> position_of_label(std::string_view label);

}  // namespace millrace
