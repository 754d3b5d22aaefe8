// The log of fault_files.so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace::test {

struct LoggedCall {
  std::uint64_t number = 0;
  std::string call;
  int error = 0, descriptor = -1;
  std::int64_t offset = 0;
  std::size_t bytes = 0;
  int flags = 0;
  std::string path, second;  // relative to the folder; "." is the folder
  std::string data;
};

// Throws std::runtime_error for an incomplete record.
std::vector<LoggedCall> read_log(const std::string& file);

}  // namespace millrace::test
