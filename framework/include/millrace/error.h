// Errors, and how their messages gain context on the way up.
//
// Only `main` ends the process. All other code throws `Error`; each level adds its context by `in()`, such as the stage's name or
// the pipeline file, and rethrows.
//
//   catch (Error& error) { error.in("stage 'train.decode_image'"); throw; }
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace millrace {

// Groups errors by who can fix them. The kind decides the exit code, and whether a sample is replaced.
enum class ErrorKind {
  usage,        // the command line or a TOML file is wrong                                     exit 2
  data,         // the data set as a whole cannot be used: missing folder, no image in it       exit 3
  content,      // one sample's bytes are bad; the pipeline's policy for bad samples decides    exit 3 when it ends the run
  storage,      // a disk failed or is full, or a server sent an unusable answer                exit 1
  device,       // a device failed or is out of memory                                          exit 4
  peer,         // another process of this run exited or timed out                              exit 138
  run,          // anything else that ended a run                                               exit 1
  interrupted,  // stopped by a signal                                                          exit 130 or 143
  unreachable,  // a server did not answer for longer than its retries: try again later         exit 75
};

const char* to_string(ErrorKind kind);
int exit_code(ErrorKind kind);

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message);

  ErrorKind kind() const noexcept { return kind_; }
  const std::string& message() const noexcept { return message_; }               // without context
  const std::vector<std::string>& context() const noexcept { return context_; }  // innermost first
  const char* what() const noexcept override { return text_.c_str(); }           // "outermost: ...: innermost: message"

  // Adds a frame outside all existing ones and returns *this.
  Error& in(std::string frame);

 private:
  ErrorKind kind_;
  std::string message_;
  std::vector<std::string> context_;
  std::string text_;
};

namespace detail {
[[noreturn]] void fail(ErrorKind kind, fmt::string_view format, fmt::format_args arguments);
}

// fail(ErrorKind::data, "folder '{}' holds no image", path);
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, const Args&... args) {
  detail::fail(kind, format, fmt::make_format_args(args...));
}

// Converts the exception being handled to an Error (bad_alloc and foreign exceptions become ErrorKind::run).
// REQUIRES: called inside a catch block.
Error current_error();

}  // namespace millrace
