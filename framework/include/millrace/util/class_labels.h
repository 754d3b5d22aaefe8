// How labels name classes. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// The classes that the labels of a whole data set name.
struct LabelMeaning {
  std::vector<std::int32_t> classes;   // by label, where `unknown` is empty
  std::optional<std::size_t> unknown;  // a label that does not fit
  std::string advice;                  // why it does not, to follow its message: "; ..."; may be empty
  std::string doubt;                   // for a warning, where labels may be meant otherwise; empty: they may not
};

enum class LabelsAre {
  names,            // alone
  names_first,      // or positions, where they are not all names
  positions_first,  // or names, where they are not all positions
};

// Reads all labels alike: as names in `classes`, or as positions there, counted from 0 ("007" is 7). Of classes "1", "2" and "3",
// the label 1 by itself may be either. `labels`: those of the set, each once.
LabelMeaning meaning_of_labels(const std::vector<std::string>& labels, const std::vector<std::string>& classes,
                               LabelsAre which = LabelsAre::names_first);

// The position that a label of digits alone says; nothing for other texts, and beyond 999,999,999.
std::optional<std::int32_t> position_of_label(std::string_view label);

}  // namespace millrace
