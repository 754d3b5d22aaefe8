// Files with one JSON object per line, such as metrics.jsonl. Unless the disk fails, each line is in the file when write()
// returns.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace millrace {

// A JSON object with its members in order of addition.
//
//   JsonLine().add("event", "epoch").add("epoch", 3).add("loss", 0.25).text()   {"event":"epoch","epoch":3,"loss":0.25}
class JsonLine {
 public:
  JsonLine& add(std::string_view name, std::string_view value);  // as utf8_text() (text.h), without passwords in URLs
  JsonLine& add(std::string_view name, const char* value) { return add(name, std::string_view(value)); }
  JsonLine& add(std::string_view name, double value);  // null if not finite
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

// A file to which lines are appended. It holds whole lines only: a line that a full disk cut short is removed again.
//
// Write failures must not end a run that could continue. A failed line waits and is retried before the next one, so that none is
// missing once there is space; `warn` is called once. Once kMaxKept bytes wait, newer lines are lost, with another warning.
// finish() reports missing lines at the end. One thread at a time.
//
// If the file was moved or removed, as in log rotation, lines after the next sync() go to a new file of the same name. `warn` is
// called once.
class LineFile {
 public:
  using Warn = std::function<void(std::string_view message)>;
  // Replaces the file, or appends to it after cutting off an incomplete last line of a killed program. Throws Error(run) naming
  // the file.
  LineFile(const std::string& path, Warn warn, bool append = false);
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  ~LineFile();  // retries waiting lines once more
  void write(std::string_view line);
  bool has_all() const { return waiting_.empty() && lost_ == 0; }  // all lines given to write()
  // Forces the lines onto the disk, waiting ones first. Calls `warn`, once, if that fails or lines still wait.
  void sync();
  // Call after the last line: retries waiting lines once more. Throws Error(run) with the file and the number of missing lines.
  void finish();

  static constexpr std::size_t kMaxKept = std::size_t{4} << 20;

 private:
  void write_waiting();
  bool cut_torn_line();
  void follow_path();
  void warn_once(bool& warned, const std::string& what);
  std::string missing() const;

  const std::string path_;
  const Warn warn_;
  int file_ = -1;
  std::string waiting_;      // whole lines
  std::int64_t whole_ = -1;  // size of the file's whole lines in bytes, if half a line could not be cut off; else -1
  bool is_synced_ = true, folder_is_synced_ = false, warned_of_moving_ = false;
  std::size_t lost_ = 0;  // lines
  int cause_ = 0;         // errno of the last failed call
  bool warned_of_writing_ = false, warned_of_loss_ = false, warned_of_syncing_ = false, warned_of_missing_ = false;
};

}  // namespace millrace
