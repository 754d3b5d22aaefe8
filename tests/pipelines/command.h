// Runs the tools as users do, and reads their output.
#pragma once

#include <csignal>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <source_location>
#include <string>
#include <vector>

namespace millrace::test {

// Whether programs use unplanned memory and addresses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitizer = true;
#else
inline constexpr bool kSanitizer = false;
#endif

struct Outcome {
  int code = -1;  // exit code; 128 + signal if it was killed
  std::string out, err;
  double seconds = 0;
  double awake_seconds = 0;  // without time during which the machine was paused
  bool killed = false;       // it exceeded the limit
  long peak_kib = 0;         // largest resident set
};

// An action on a running program.
struct Interruption {
  Interruption(double seconds = 0) : after(seconds) {}  // NOLINT(google-explicit-constructor): a number says it all
  double after;                                         // seconds until a signal is sent; 0: never
  std::function<bool()> once = {};                      // sends the signal as soon as this returns true, regardless of `after`
  int signal = SIGINT;
  double limit = 0;  // awake seconds before it is killed; 0: never
};

// The words, --set before each of `set`, and the options.
std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& set,
                              const std::vector<std::string>& options = {});

// Runs a program with arguments; no shell.
Outcome run_command(const std::vector<std::string>& arguments, const Interruption& interruption = {});

// The same outcome; the test fails if its exit code is not 0.
Outcome succeeded(Outcome outcome, std::source_location place = std::source_location::current());
// Its standard error; the test fails if its exit code is another.
std::string refused(const Outcome& outcome, int code = 2, std::source_location place = std::source_location::current());

// Turns a forked process into this program, with its output in these files. Resets signals to their defaults, since `nohup` and
// shells may have set some to be ignored.
[[noreturn]] void become(const std::vector<std::string>& arguments, const std::string& out, const std::string& err);

// Whether a bf16 run was refused because this processor has none.
bool lacks_bf16(const Outcome& outcome);

// Words to put before a program so that permissions apply to root too; empty if not available.
std::vector<std::string> without_privileges();

std::string tool(const std::string& name);      // path in the build tree
std::string pipeline(const std::string& name);  // path in the source tree

std::string read_file(const std::filesystem::path& path);  // its bytes; empty if unreadable
// The file of this name in a folder or below it; empty if there is none.
std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& name);

// The next list of numbers after `key`, as in `key = [1, 2]`; empty if there is none.
std::vector<double> numbers_behind(const std::string& text, const std::string& key);

// A folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// The shapes data set, drawn once per build of pipeline-data: 40 training and 13 test images per class. Read it, or copy it.
const std::string& shapes();

// The lines of `--json` output with this event.
std::vector<nlohmann::json> events(const Outcome& outcome, const std::string& event);

}  // namespace millrace::test
