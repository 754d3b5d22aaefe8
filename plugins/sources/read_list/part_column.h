// Columns of a list that say which part of a data set a file belongs to, such as split, or is_valid of fastai.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "table.h"

namespace millrace {

// The first of `columns` that is named so, that is not among those `used`, and that tells files apart. "": there is none.
std::string part_column(std::string_view text, const TableFormat& format, const std::string& name,
                        const std::vector<std::string>& columns, const std::vector<std::string>& used);

}  // namespace millrace
