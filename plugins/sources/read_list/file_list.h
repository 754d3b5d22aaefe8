// Files with labels or numbers, as a list names them. In little memory: a million take about 35 MB, and 4 bytes more a number.
//
// Joined, a path stands there once, there are no labels by path, and each line is a row of numbers: its label where there is a
// column of labels, then its numbers.
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
  bool join = false;   // lines that name the same file are rows of one sample
  std::string ending;  // ".jpg": what the list's paths lack
};

struct FileList {
  PathList paths;                     // as the list has them
  std::vector<std::int32_t> labels;   // by path; empty without a column of labels, and when joined
  std::vector<float> numbers;         // (paths, columns), or (rows, columns)
  std::vector<std::uint64_t> rows;    // by path, and one more: where its rows begin; empty unless joined
  std::vector<std::string> classes;   // by label
  std::vector<std::uint64_t> counts;  // by label
  std::vector<std::uint32_t> lines;   // by path, for messages
  std::string part_column;            // one beside the wanted ones, by which files are in parts of a data set; empty: none
  std::string repeated;               // files that are on several lines, for a warning; empty: none, or joined
  std::string doubt;                  // how labels may be meant otherwise, for a warning; empty: they may not
  std::string contradictions;         // what lines say of the same file and differ in, for a warning; empty: nothing

  std::size_t memory() const {
    return paths.memory() + labels.capacity() * sizeof(std::int32_t) + numbers.capacity() * sizeof(float) +
           rows.capacity() * sizeof(std::uint64_t) + lines.capacity() * sizeof(std::uint32_t);
  }
};

// What a user says where these are classes, for messages: "classes = ["1990", "2000"] says so, or with data.path ...".
std::string classes_key(const std::vector<std::string>& names);

// Labels are names, or integers from 0 on when all of them are; with `classes`, see meaning_of_labels().
// Throws ErrorKind::data, with list, line and column, for what cannot be used.
FileList read_list(std::string_view text, const TableFormat& format, const std::string& name, const ListColumns& columns,
                   const std::vector<std::string>& classes);

}  // namespace millrace
