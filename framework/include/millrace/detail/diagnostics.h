// Collects mistakes in a file into one error. Included by params.h.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "millrace/detail/value.h"

namespace millrace {

// Collects mistakes in a file, so that all are reported at once.
class Diagnostics {
 public:
  void add(const Position& at, std::string message);
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  std::string text() const;   // sorted by position, one "file:line:column: message" per line
  void throw_if_any() const;  // Error(ErrorKind::usage, text())

  // Whether the next message should name the nearest name. Searching takes time, so only the first mistakes do it.
  static constexpr std::size_t kMaxNearest = 50;
  bool names_nearest() const { return size() < kMaxNearest; }

  struct Entry {
    Position at;
    std::string message;
  };
  const std::vector<Entry>& entries() const { return entries_; }  // in the order of addition

 private:
  std::vector<Entry> entries_;
};

}  // namespace millrace
