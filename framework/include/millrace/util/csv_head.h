// The names of the columns of a CSV file.
#pragma once

#include <string>
#include <vector>

namespace millrace {

// The first row, with its end. Each column has a name of its own: where a name is there before, the later one ends in the first
// of _2, _3, ... that makes it one that no other column has. So a class "label" beside the column of labels is "label_2".
std::string csv_head(const std::vector<std::string>& names);

}  // namespace millrace
