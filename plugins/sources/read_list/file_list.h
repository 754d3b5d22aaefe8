// Files with labels or numbers, as a list names them. In little memory: a million take about 35 MB, and 4 bytes more a number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/files.h"
#include "table.h"

namespace millrace {

struct ListColumns {
  std::string file;
  std::optional<std::string> label;
  std::vector<std::string> numbers;
};

struct FileList {
  PathList paths;                     // as the list has them
  std::vector<std::int32_t> labels;   // by path; empty without a column of labels
  std::vector<float> numbers;         // (paths, columns)
  std::vector<std::string> classes;   // by label
  std::vector<std::uint64_t> counts;  // by label
  std::vector<std::uint32_t> lines;   // by path, for messages

  std::size_t memory() const {
    return paths.memory() + labels.capacity() * sizeof(std::int32_t) + numbers.capacity() * sizeof(float) +
           lines.capacity() * sizeof(std::uint32_t);
  }
};

// Labels are names, or integers from 0 on when all of them are; with `classes`, names of these or integers that count them.
// Throws ErrorKind::data, with list, line and column, for what cannot be used.
FileList read_list(std::string_view text, const TableFormat& format, const std::string& name, const ListColumns& columns,
                   const std::vector<std::string>& classes);

}  // namespace millrace
