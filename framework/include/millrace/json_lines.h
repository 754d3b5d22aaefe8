// Files of JSON objects, one a line, as metrics.jsonl is: each line is in the file when write() returns.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

namespace millrace {

// A JSON object, its members in the order in which they are added.
//
//   JsonLine().add("event", "epoch").add("epoch", 3).add("loss", 0.25).text()   {"event":"epoch","epoch":3,"loss":0.25}
class JsonLine {
 public:
  JsonLine& add(std::string_view name, std::string_view value);  // bytes that are no UTF-8 are replaced
  JsonLine& add(std::string_view name, const char* value) { return add(name, std::string_view(value)); }
  JsonLine& add(std::string_view name, double value);  // null where it is not finite
  JsonLine& add(std::string_view name, bool value);
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) JsonLine& add(std::string_view name, T value) {
    return append(name, std::to_string(value));
  }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  JsonLine& append(std::string_view name, const std::string& value);
  std::string members_;
};

// A file that lines are appended to. A line that cannot be written must not end a run that could go on: `warn` is told once, and
// the lines after it are tried again. One thread at a time.
class LineFile {
 public:
  using Warn = std::function<void(std::string_view message)>;
  // Replaces the file, or appends to it; the incomplete last line of a killed program is cut off then. Throws Error(run) naming
  // the file.
  LineFile(const std::string& path, Warn warn, bool append = false);
  void write(std::string_view line);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  Warn warn_;
  std::unique_ptr<std::FILE, Close> file_;
  bool lines_are_lost_ = false;
};

}  // namespace millrace
