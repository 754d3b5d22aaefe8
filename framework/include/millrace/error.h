// Errors: what a library below `main` throws, and how a message gains its context on the way up.
//
// Only `main` ends the process. Everything else throws `Error`; each level adds by `in()` what the one below did not know, such
// as the stage's name or the pipeline's file, and throws on.
//
//   catch (Error& error) { error.in("stage 'train.decode_image'"); throw; }
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace millrace {

// Who can do something about it. The kind decides the exit code, and whether a sample is replaced.
enum class ErrorKind {
  usage,        // the command line or a TOML file is wrong                                     exit 2
  data,         // the data set as a whole cannot be used: missing folder, no image in it       exit 3
  content,      // one sample's bytes are bad; the pipeline's policy for bad samples decides    exit 3 when it ends the run
  storage,      // a disk failed or is full, or a server answered what cannot be used           exit 1
  device,       // a device failed or is out of memory                                          exit 4
  peer,         // another process of this run is gone, or is silent                            exit 138
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

  // Adds a frame outside all present ones and returns *this.
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

// Turns whatever is being handled into an Error (bad_alloc and foreign exceptions become ErrorKind::run).
// REQUIRES: called inside a catch block.
Error current_error();

}  // namespace millrace
