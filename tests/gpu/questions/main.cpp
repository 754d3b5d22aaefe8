// gpu_questions: asks the first device what only a device can answer, in about a minute. README.md says what comes out.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>

#include "millrace/error.h"
#include "question.h"
#include "supervisor.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;  // of the file
constexpr double kSecondsEach = 15, kSeconds = 75;

std::string help() {
  std::string text =
      "usage: gpu_questions --out FILE.json [--only NAME]... [--seconds N] [--seconds-each N] [--deviceless sm90] [--list]\n\n"
      "Asks the first GPU what only a GPU can answer. Each question has a process of its own: a crash or a hang costs one.\n"
      "FILE is written again after each. Questions, the most important first:\n";
  for (const Question& question : all_questions()) text += fmt::format("  {:16} {}\n", question.name, question.text);
  return text +
         "\n  --only NAME        this question (several: --only again); by default all of them\n"
         "  --seconds N        for all of them together (75)\n"
         "  --seconds-each N   at most for one (15); with more, more engines are tried\n"
         "  --deviceless sm90  no GPU is touched: cuDNN lists its engines for a described H100, and makes them ready\n"
         "  --list             the names\n\n"
         "Exit status: 0 all were answered, 1 some were not, 2 the command line is wrong, 4 there is no device.\n";
}

struct Options {
  fs::path out, answer, second_rank;
  std::vector<std::string> only;
  double seconds = kSeconds, seconds_each = kSecondsEach;
  std::string deviceless;
  bool list = false;
};

double number(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value > 0 && value <= 3600)) {
    fail(ErrorKind::usage, "{} must be a number of seconds up to 3600, found '{}'", option, text);
  }
  return value;
}

const Question& question_named(const std::string& name) {
  for (const Question& question : all_questions()) {
    if (name == question.name) return question;
  }
  fail(ErrorKind::usage, "there is no question '{}'; --list names them", name);
}

Options read_arguments(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == count) fail(ErrorKind::usage, "{} needs a value", word);
      return words[++i];
    };
    if (word == "--list")
      options.list = true;
    else if (word == "--out")
      options.out = value();
    else if (word == "--only")
      options.only.push_back(question_named(value()).name);
    else if (word == "--seconds")
      options.seconds = number(word, value());
    else if (word == "--seconds-each")
      options.seconds_each = number(word, value());
    else if (word == "--deviceless")
      options.deviceless = value();
    else if (word == "--answer")
      options.answer = value();  // this is a question's own process
    else if (word == "--second-rank")
      options.second_rank = value();  // or the one that it starts
    else
      fail(ErrorKind::usage, "unknown option '{}'\n\n{}", word, help());
  }
  if (!options.deviceless.empty() && options.deviceless != "sm90") {
    fail(ErrorKind::usage, "--deviceless knows sm90, found '{}'", options.deviceless);
  }
  return options;
}

std::string own_path() { return fs::read_symlink("/proc/self/exe").string(); }

// Ends the process without CUDA's own cleaning up, which may hang on a device that is in trouble.
[[noreturn]] void end(int status) {
  std::fflush(nullptr);
  std::_Exit(status);
}

// With more time for each question the enumerations go further.
double seconds_of(const Options& options) {
  if (options.only.empty()) return options.seconds_each;  // the second rank
  return question_named(options.only.front()).seconds * options.seconds_each / kSecondsEach;
}

[[noreturn]] void answer(const Options& options) {
  const Setting setting{.program = own_path(), .deviceless = options.deviceless};
  Findings findings(options.answer, seconds_of(options));
  try {
    if (options.only.empty()) {
      be_second_rank(options.second_rank.string(), findings);
    } else {
      question_named(options.only.front()).ask(setting, findings);
    }
    findings.done();
  } catch (const std::exception& error) {
    findings.failed(error.what());
    end(1);
  }
  end(0);
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

std::vector<Task> tasks_of(const Options& options) {
  std::vector<Task> tasks;
  for (const Question& question : all_questions()) {
    const bool first = &question == &all_questions().front();
    const bool wanted = options.only.empty() || std::count(options.only.begin(), options.only.end(), question.name) > 0;
    const bool asked = options.deviceless.empty() ? wanted || first : wanted && question.deviceless;
    if (asked) tasks.push_back({.name = question.name, .text = question.text, .seconds = options.seconds_each});
  }
  return tasks;
}

std::string line_of(const Task& task, const Json& result) {
  const std::string doing = result.contains("doing") ? " while " + result["doing"].get<std::string>() : "";
  const std::string why = result.contains("why") ? ": " + result["why"].get<std::string>() : "";
  return fmt::format("{:16} {}{}{}  {:.1f} s", task.name, result["outcome"].get<std::string>(), doing, why,
                     result.value("seconds", 0.0));
}

int supervise(const Options& options) {
  const std::string program = own_path();
  const auto command = [&](const Task& task, const fs::path& file) {
    std::vector<std::string> words{
        program, "--only", task.name, "--answer", file.string(), "--seconds-each", fmt::format("{}", task.seconds)};
    if (!options.deviceless.empty()) words.insert(words.end(), {"--deviceless", options.deviceless});
    return words;
  };
  Json about = {{"format", kFormat}, {"date", date()}};
  if (!options.deviceless.empty()) about["deviceless"] = options.deviceless;
  const std::vector<Task> tasks = tasks_of(options);
  Supervisor supervisor(options.out, about, tasks, command, options.seconds);
  std::string why_none;
  for (const Task& task : tasks) {
    if (!why_none.empty()) {
      supervisor.leave_out(task, why_none);
      continue;
    }
    const Json& result = supervisor.ask(task);
    std::puts(line_of(task, result).c_str());
    std::fflush(stdout);
    if (result.contains("answer") && result["answer"].contains("why_none")) why_none = result["answer"]["why_none"];
  }
  if (!why_none.empty()) {
    supervisor.remark("no_device", why_none);
    fail(ErrorKind::device, "{}", why_none);
  }
  return supervisor.all_answered() ? 0 : 1;
}

int run(int count, char** words) {
  const Options options = read_arguments(count, words);
  if (!options.answer.empty()) answer(options);
  if (options.list) {
    for (const Question& question : all_questions()) std::puts(question.name);
    return 0;
  }
  if (options.out.empty()) fail(ErrorKind::usage, "--out FILE.json is needed\n\n{}", help());
  return supervise(options);
}

}  // namespace
}  // namespace millrace::gpu

int main(int count, char** words) {
  try {
    return millrace::gpu::run(count, words);
  } catch (const millrace::Error& error) {
    std::fprintf(stderr, "gpu_questions: %s\n", error.what());
    return millrace::exit_code(error.kind());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_questions: %s\n", error.what());
    return 1;
  }
}
