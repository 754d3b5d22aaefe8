// Files of JSON objects, one a line, as metrics.jsonl is. Where the disk takes it, each line is in the file when write() returns.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace millrace {

// A JSON object, its members in the order in which they are added.
//
//   JsonLine().add("event", "epoch").add("epoch", 3).add("loss", 0.25).text()   {"event":"epoch","epoch":3,"loss":0.25}
class JsonLine {
 public:
  JsonLine& add(std::string_view name, std::string_view value);  // utf8_text() of it (text.h), without passwords in URLs
  JsonLine& add(std::string_view name, const char* value) { return add(name, std::string_view(value)); }
  JsonLine& add(std::string_view name, double value);  // null where it is not finite
  JsonLine& add(std::string_view name, bool value);
  JsonLine& add(std::string_view name, const std::vector<std::string>& values);  // each as above
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) JsonLine& add(std::string_view name, T value) {
    return append(name, std::to_string(value));
  }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  JsonLine& append(std::string_view name, const std::string& value);
  std::string members_;
};

// A file that lines are appended to. It holds whole lines only: what a full disk has taken of a line is cut off again.
//
// A line that cannot be written must not end a run that could go on. It waits, and is tried again before the next one, so that
// none is missing once there is room; `warn` is told once. When kMostKept bytes wait, newer lines are lost, and `warn` is told of
// that. finish() says at the end what is missing. One thread at a time.
//
// A file that somebody has moved away or removed, as a rotation of logs does, takes no more lines from the next sync() on: they
// are in a new one of the same name. `warn` is told once.
class LineFile {
 public:
  using Warn = std::function<void(std::string_view message)>;
  // Replaces the file, or appends to it; the incomplete last line of a killed program is cut off then. Throws Error(run) naming
  // the file.
  LineFile(const std::string& path, Warn warn, bool append = false);
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  ~LineFile();  // tries once more what waits
  void write(std::string_view line);
  bool has_all() const { return waiting_.empty() && lost_ == 0; }  // that write() was given
  // Brings the lines onto the disk; tries first what waits. An error, or that lines still wait, is told to `warn`, once.
  void sync();
  // After the last line: tries once more what waits. Throws Error(run) that names the file and the number of lines that are
  // missing.
  void finish();

  static constexpr std::size_t kMostKept = std::size_t{4} << 20;

 private:
  void write_waiting();
  bool cut_torn_line();
  void follow_path();
  void tell(bool& told, const std::string& what);
  std::string missing() const;

  const std::string path_;
  const Warn warn_;
  int file_ = -1;
  std::string waiting_;      // whole lines
  std::int64_t whole_ = -1;  // bytes: of the file's whole lines, where half a line could not be cut off; else -1
  bool is_synced_ = true, folder_is_synced_ = false, told_of_moving_ = false;
  std::size_t lost_ = 0;  // lines
  int cause_ = 0;         // errno of the last call that failed
  bool told_of_writing_ = false, told_of_loss_ = false, told_of_syncing_ = false, told_of_missing_ = false;
};

}  // namespace millrace
