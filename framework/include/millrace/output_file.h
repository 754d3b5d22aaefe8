// Files that stages write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/stage.h"

namespace millrace {

// A new file that takes the place of `path` when it is whole: readers of `path` see the old file or the whole new one, also after
// a crash. It is written as `path`.new-PID. Its folder is made where it is missing. All calls throw Error(storage) that names the
// file. Not thread-safe.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // removes what was neither committed nor kept

  void write(const void* data, std::size_t bytes);  // at the end; buffered
  void write(std::string_view text) { write(text.data(), text.size()); }
  void write_at(std::uint64_t offset, std::string_view bytes);  // REQUIRES: within what was written
  void commit();
  std::string keep();  // closes it under its temporary name, which it returns: the file is not whole

 private:
  void flush();
  void write_through(const char* data, std::size_t bytes);
  [[noreturn]] static void failed(const char* what, const std::string& path);

  std::string path_, temporary_, buffer_;
  int file_ = -1;
};

// Where a stage writes: `file` in the run's folder unless it is absolute. Throws Error(usage) that names `key` when the run has
// no folder, Error(storage) when nothing can be written there. Makes nothing. For open().
std::string output_path(const StageContext& context, std::string_view key, const std::string& file);

// A field of a CSV file, in quotes where RFC 4180 asks for them.
void append_csv(std::string& line, std::string_view field);
// A text of a JSON file, with its quotes. Bytes that are no UTF-8 become U+FFFD.
void append_json(std::string& line, std::string_view text);

}  // namespace millrace
