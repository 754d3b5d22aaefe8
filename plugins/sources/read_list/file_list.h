// Files with labels or numbers from a list, stored compactly: a million take about 35 MB, and 4 bytes more per number.
//
// When joined, each path occurs once, there are no labels by path, and each line is a row of numbers: its label if there is a
// label column, then its numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/util/files.h"
#include "table.h"

namespace millrace {

struct ListColumns {
  std::string file;
  std::optional<std::string> label;
  std::vector<std::string> numbers;
  bool join = false;   // lines with the same file are rows of one sample
  std::string ending;  // appended to the list's paths: ".jpg"
};

struct FileList {
  PathList paths;                     // as written in the list
  std::vector<std::int32_t> labels;   // by path; empty without a label column, and when joined
  std::vector<float> numbers;         // (paths, columns), or (rows, columns)
  std::vector<std::uint64_t> rows;    // by path: begin of its rows, and the end of the last; empty unless joined
  std::vector<std::string> classes;   // by label
  std::vector<std::uint64_t> counts;  // by label
  std::vector<std::uint32_t> lines;   // by path, for messages
  std::string part_column;            // another column that assigns files to parts of a data set; empty: none
  std::string repeated;               // files on several lines, for a warning; empty: none, or joined
  std::string doubt;                  // another possible meaning of the labels, for a warning; empty: none
  std::string contradictions;         // lines that disagree about the same file, for a warning; empty: none

  std::size_t memory() const {
    return paths.memory() + labels.capacity() * sizeof(std::int32_t) + numbers.capacity() * sizeof(float) +
           rows.capacity() * sizeof(std::uint64_t) + lines.capacity() * sizeof(std::uint32_t);
  }
};

// The key that declares these as classes, for messages: "set classes = ["1990", "2000"], or with data.path ...".
std::string classes_key(const std::vector<std::string>& names);

// Labels are names, or integers from 0 on if all of them are; with `classes`, see meaning_of_labels().
// Throws ErrorKind::data, with list, line and column, for invalid content.
FileList read_list(std::string_view text, const TableFormat& format, const std::string& name, const ListColumns& columns,
                   const std::vector<std::string>& classes);

}  // namespace millrace
