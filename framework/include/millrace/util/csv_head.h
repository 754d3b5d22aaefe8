// The header row of a CSV file.
#pragma once

#include <string>
#include <vector>

namespace millrace {

// The first row, with its line end. Column names are unique: if a name was used before, the later one gets the first free suffix
// _2, _3, ... A class "label" next to the column of labels becomes "label_2".
std::string csv_head(const std::vector<std::string>& names);

}  // namespace millrace
