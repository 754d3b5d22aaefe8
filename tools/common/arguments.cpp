#include "common/arguments.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "millrace/detail/value.h"
#include "millrace/error.h"
#include "millrace/util/paths.h"
#include "millrace/util/standard_error.h"
#include "toml/shipped.h"
#include "util/memory_limit.h"
#include "util/out_of_memory.h"

namespace millrace {

Arguments::Arguments(std::string program, std::string usage, std::string text)
    : program_(std::move(program)), usage_(std::move(usage)), text_(std::move(text)) {
  names_ = [has_file = usage_.find("FILE") != std::string::npos || usage_.find(".toml") != std::string::npos] {
    std::vector<std::string> names;
    if (!has_file) return names;
    for (const auto& [name, file] : shipped_files(kBases, ".")) names.push_back(name);
    return names;
  };
}

Arguments& Arguments::names(KnownNames known) {
  names_ = std::move(known);
  return *this;
}

Arguments& Arguments::flag(std::string name, std::string text, bool& set) {
  options_.push_back({std::move(name), "", std::move(text), [&set](const std::string&) { set = true; }, {}, {}});
  return *this;
}

Arguments& Arguments::option(std::string name, std::string value_name, std::string text, std::string& value) {
  options_.push_back(
      {std::move(name), std::move(value_name), std::move(text), [&value](std::string v) { value = std::move(v); }, {}, {}});
  return *this;
}

Arguments& Arguments::option_or(std::string name, std::string value_name, std::string text, std::string alone,
                                std::function<bool(std::string_view)> fits, std::string& value) {
  options_.push_back({std::move(name), "[" + value_name + "]", std::move(text), [&value](std::string v) { value = std::move(v); },
                      std::move(alone), std::move(fits)});
  return *this;
}

Arguments& Arguments::repeated(std::string name, std::string value_name, std::string text, std::vector<std::string>& values) {
  options_.push_back({std::move(name),
                      std::move(value_name),
                      std::move(text),
                      [&values](std::string v) { values.push_back(std::move(v)); },
                      {},
                      {}});
  return *this;
}

Arguments& Arguments::exclude(std::vector<std::string> these, std::vector<std::string> others) {
  exclusions_.push_back({std::move(these), std::move(others)});
  return *this;
}

void Arguments::refuse_excluded(const std::vector<std::string_view>& given) const {
  const auto given_of = [&](const std::vector<std::string>& names) {
    return std::ranges::find_if(names, [&](const auto& name) { return std::ranges::find(given, name) != given.end(); });
  };
  for (const auto& [these, others] : exclusions_) {
    const auto one = given_of(these), other = given_of(others);
    if (one == these.end() || other == others.end()) continue;
    fail(ErrorKind::usage, "{} and {} exclude each other: leave one of them out; see {} --help", *one, *other, program_);
  }
}

namespace {

// This program's option for another program's name; "" if unknown or not available here.
template <class Options>
std::string option_meant_by(std::string_view name, const Options& options) {
  struct Meant {
    std::string_view name, option, written;
  };
  static constexpr Meant kMeant[] = {{"--gpu", "--devices", "--devices gpu"},
                                     {"--gpus", "--devices", "--devices gpu"},
                                     {"--cuda", "--devices", "--devices gpu"},
                                     {"--cpu", "--devices", "--devices cpu"},
                                     {"--data", "--set", "--set data.path=FOLDER"},
                                     {"--dataset", "--set", "--set data.path=FOLDER"},
                                     {"--model", "--set", "--set network.use=NAME"},
                                     {"--arch", "--set", "--set network.use=NAME"},
                                     {"--learning-rate", "--lr", "--lr RATE"},
                                     {"--learning_rate", "--lr", "--lr RATE"},
                                     {"--workers", "--set", "--set run.threads=N"},
                                     {"--num-workers", "--set", "--set run.threads=N"},
                                     {"--seed", "--set", "--set run.seed=N"},
                                     {"--pretrained", "--weights", "--weights FILE"},
                                     {"--validate", "--graph", "--graph validate --weights RUN_FOLDER"},
                                     {"--evaluate", "--graph", "--graph validate --weights RUN_FOLDER"},
                                     {"--eval", "--graph", "--graph validate --weights RUN_FOLDER"},
                                     {"--test", "--graph", "--graph validate --weights RUN_FOLDER"}};
  for (const Meant& meant : kMeant) {
    const auto has = [&](const auto& option) { return option.name == meant.option; };
    if (meant.name == name && std::ranges::any_of(options, has)) return std::string(meant.written);
  }
  return {};
}

}  // namespace

const Arguments::Option& Arguments::find(std::string_view name) const {
  const auto found = std::find_if(options_.begin(), options_.end(), [&](const Option& option) { return option.name == name; });
  if (found != options_.end()) return *found;
  if (const std::string meant = option_meant_by(name, options_); !meant.empty())
    fail(ErrorKind::usage, "unknown option '{}': write {}; see {} --help", name, meant, program_);
  std::vector<std::string> names = {"--help", "--version"};
  for (const Option& option : options_) names.push_back(option.name);
  auto near = nearest_name(name, names);
  for (const std::string& each : names) {
    if (!near && name.starts_with(each + "-")) near = each;  // --batch-size
  }
  std::string advice = near ? fmt::format("; nearest is '{}'", *near) : std::string();
  if (!near && name.starts_with("--") && std::ranges::find(names, "--set") != names.end()) {
    std::string key(name.substr(2));  // in other programs' spelling
    std::ranges::replace(key, '-', '_');
    advice = fmt::format("; a key of the file is changed by --set, as --set TABLE.{}=VALUE", key);
  }
  fail(ErrorKind::usage, "unknown option '{}'{}; see {} --help", name, advice, program_);
}

ProgramText Arguments::program_text() const {
  ProgramText text{program_, usage_, text_, {}};
  for (const Option& option : options_) text.options.push_back({option.name, option.value_name, option.text});
  return text;
}

bool Arguments::answer(int count, const char* const* arguments) const {
  const std::string_view asked = count > 1 ? arguments[1] : "";
  if (asked == "--help=man") {
    fmt::print("{}", manual_page(program_text()));
  } else if (asked == "--help=section") {
    fmt::print("{}", manual_section(program_text()));
  } else if (asked == "--complete") {
    ProgramText text = program_text();
    text.options.push_back({"--help", "", "purpose and options of the program"});
    fmt::print("{}", completions(text.options, names_, {arguments + 2, arguments + count}));
  } else {
    return false;
  }
  return true;
}

bool Arguments::read(int count, const char* const* arguments, std::vector<std::string>& rest) const {
  if (answer(count, arguments)) return false;
  bool options_ended = false;
  std::vector<std::string_view> given;
  for (int i = 1; i < count; ++i) {
    std::string_view argument = arguments[i];
    if (options_ended || argument.size() < 2 || argument[0] != '-') {
      rest.push_back(file_url_path(argument));
      continue;
    }
    if (argument == "--") {
      options_ended = true;
      continue;
    }
    if (argument == "--help" || argument == "-h") {
      fmt::print("{}", help());
      return false;
    }
    if (argument == "--version") {
      fmt::print("{}", version_text(program_));
      return false;
    }
    const std::size_t equals = argument.find('=');
    const Option& option = find(argument.substr(0, equals));
    given.push_back(option.name);
    std::string value;
    if (option.value_name.empty()) {
      if (equals != std::string_view::npos) fail(ErrorKind::usage, "option '{}' takes no value", option.name);
    } else if (equals != std::string_view::npos) {
      value = argument.substr(equals + 1);
    } else if (option.fits && (i + 1 == count || !option.fits(arguments[i + 1]))) {
      value = option.alone;
    } else if (i + 1 < count) {
      value = arguments[++i];
    } else {
      fail(ErrorKind::usage, "option '{}' needs a value: {} {}", option.name, option.name, option.value_name);
    }
    if (value.empty() && !option.value_name.empty()) {
      fail(ErrorKind::usage, "option '{}' has an empty value: write {} {}, or leave it out", option.name, option.name,
           option.value_name);
    }
    option.take(file_url_path(value));
  }
  refuse_excluded(given);
  return true;
}

std::string version_text(std::string_view program) { return fmt::format("{} (Millrace) {}\n", program, MILLRACE_VERSION); }

std::string exit_codes_text() {
  std::string text = "\nExit codes:\n";
  for (const ExitText& exit : kExits) text += fmt::format("  {:<24} {}\n", exit.code, exit.text);
  return text;
}

std::string Arguments::help() const {
  std::string text = fmt::format("usage: {} {}\n\n{}\n", program_, usage_, text_);
  if (!options_.empty()) text += "\n";
  for (const Option& option : options_) {
    const std::string left = option.value_name.empty() ? option.name : option.name + " " + option.value_name;
    text += fmt::format("  {:<24} {}\n", left, option.text);
  }
  if (program_.find(' ') != std::string::npos) return text;  // a verb ends like its program
  return text + exit_codes_text();
}

std::int64_t integer(std::string_view option, const std::string& text, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    fail(ErrorKind::usage, "{}: expected a whole number from {} to {}, found '{}'", option, low, high, text);
  }
  return value;
}

std::string only_file(const std::vector<std::string>& rest, std::string_view program) {
  if (rest.size() != 1) fail(ErrorKind::usage, "one file is needed, found {}; see {} --help", rest.size(), program);
  return rest[0];
}

namespace {

// Opens standard streams that the program was started without: otherwise the next opened file would get their number, and their
// text.
void open_missing_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDWR);  // the lowest free number, so this one
  }
}

// `cause`: errno; 0 if unknown. A reader that has seen enough, such as `head`, is not an error.
void refuse_output(int cause) {
  if (cause == EPIPE) return std::clearerr(stdout);
  fail(ErrorKind::storage, "standard output cannot be written{}", cause == 0 ? "" : fmt::format(": {}", std::strerror(cause)));
}

// A full disk behind `> report.txt` would go unnoticed otherwise.
void require_output_written() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (!flushed || std::ferror(stdout) != 0) refuse_output(flushed ? 0 : errno);
}

// The exit code. Text beyond standard output's buffer is written at once, and fmt::print throws on failure.
int code_of(const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) throw;
    refuse_output(error.code().value());
    return 0;
  }
}

}  // namespace

namespace {

// A stack that is too small ends the program by a signal, which names nothing. The limit counts for its threads too.
void require_stack() {
  constexpr rlim_t kLeast = rlim_t{256} << 10;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeast) return;  // RLIM_INFINITY is the largest number
  fail(ErrorKind::run, "the stack may have {} kB, and at least {} are needed: raise the limit (ulimit -s)", limit.rlim_cur >> 10,
       kLeast >> 10);
}

}  // namespace

int run_tool(const char* program, const std::function<int()>& body) {
  open_missing_streams();
  try {
    require_stack();
    const int code = code_of(body);
    constexpr int kFirstSignal = 128;  // the stopping program checks for this code
    if (code < kFirstSignal) require_output_written();
    return code;
  } catch (...) {
    const Error error = current_error();
    print_to_stderr("{}: {}{}\n", program, error.what(), lacks_memory(error) ? ": " + held_memory(host_memory()) : "");
    return exit_code(error.kind());
  }
}

}  // namespace millrace
