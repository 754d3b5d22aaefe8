// Detects columns of a list that assign files to parts of a data set, such as split, or is_valid of fastai.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "table.h"

namespace millrace {

// The first of `columns` that has such a name, is not `used`, and distinguishes files; "" if none.
std::string part_column(std::string_view text, const TableFormat& format, const std::string& name,
                        const std::vector<std::string>& columns, const std::vector<std::string>& used);

}  // namespace millrace
