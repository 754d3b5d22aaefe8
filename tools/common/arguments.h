// The command lines of the tools: options are declared once, parsed, and explained by --help.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/completion.h"
#include "common/manual.h"

namespace millrace {

// Options may stand before, between and after the other arguments; "--" ends them; "--name=value" and "--name value" are the
// same, and a path may be written as a URL of the scheme file. --help and --version are always there; for the build and the shell
// also --help=man, --help=section and --complete WORD... (manual.h, completion.h).
class Arguments {
 public:
  // `usage`: the command line after the program's name; `text`: the program's purpose.
  Arguments(std::string program, std::string usage, std::string text);

  Arguments& flag(std::string name, std::string text, bool& set);
  Arguments& option(std::string name, std::string value_name, std::string text, std::string& value);
  // The value is optional; without one it is `alone`: "--page", "--page=VALUE"; "--page VALUE" if the value `fits`.
  Arguments& option_or(std::string name, std::string value_name, std::string text, std::string alone,
                       std::function<bool(std::string_view)> fits, std::string& value);
  // Words allowed in addition to options and files: by default the names of base files, if `usage` has a FILE.
  Arguments& names(KnownNames known);
  Arguments& repeated(std::string name, std::string value_name, std::string text, std::vector<std::string>& values);
  // Each of `these` is an error with any of `others`: the program would silently ignore one of them.
  Arguments& exclude(std::vector<std::string> these, std::vector<std::string> others);

  // Reads the command line; `rest` receives the other arguments. Throws Error(usage): for an unknown option, with the nearest
  // one, and for an empty value, which a script passes from an unset variable. Returns false after printing --help or --version
  // to standard output.
  bool read(int count, const char* const* arguments, std::vector<std::string>& rest) const;

  std::string help() const;

 private:
  struct Option {
    std::string name, value_name, text;
    std::function<void(std::string)> take;
    std::string alone = {};
    std::function<bool(std::string_view)> fits = {};  // null: a value is required
  };
  const Option& find(std::string_view name) const;
  ProgramText program_text() const;
  void refuse_excluded(const std::vector<std::string_view>& given) const;
  // Answers a query from the build or a shell; false if there was none.
  bool answer(int count, const char* const* arguments) const;

  std::string program_, usage_, text_;
  KnownNames names_;
  std::vector<Option> options_;
  struct Exclusion {
    std::vector<std::string> these, others;
  };
  std::vector<Exclusion> exclusions_;
};

std::string version_text(std::string_view program);  // one line
std::string exit_codes_text();                       // the end of --help

// The value of an option that is a whole number. Throws Error(usage) for anything else.
std::int64_t integer(std::string_view option, const std::string& text, std::int64_t low, std::int64_t high);

// The only argument, apart from options. Throws Error(usage) if there are fewer or more.
std::string only_file(const std::vector<std::string>& rest, std::string_view program);

// Runs a tool's body and turns exceptions into a message on standard error and the exit code of their kind. Does the same if
// standard output failed, unless its reader is gone. Only this and `main` use exit codes.
int run_tool(const char* program, const std::function<int()>& body);

}  // namespace millrace
