#include "supervisor.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "millrace/error.h"
#include "process.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostSaid = 2000;  // bytes of what a task printed, its end
constexpr double kLeast = 1;             // seconds; with less there is no use in asking

std::string read(const fs::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string end_of(const std::string& text) { return text.size() <= kMostSaid ? text : text.substr(text.size() - kMostSaid); }

double rounded(double seconds) { return static_cast<double>(static_cast<long>(seconds * 1000)) / 1000; }

void judge(Json& result, const Json& findings, std::optional<int> status, double limit) {
  const bool readable = findings.is_object() && findings.contains("answer");
  if (!status) {
    result["outcome"] = "hung";
    result["why"] = fmt::format("was stopped after {:.1f} s", limit);
  } else if (WIFSIGNALED(*status)) {
    result["outcome"] = "crashed";
    result["why"] = fmt::format("ended by signal {} ({})", WTERMSIG(*status), strsignal(WTERMSIG(*status)));
  } else if (WEXITSTATUS(*status) != 0) {
    result["outcome"] = "failed";
    result["why"] = readable && findings.contains("error") ? findings["error"].get<std::string>()
                                                           : fmt::format("ended with status {}", WEXITSTATUS(*status));
  } else if (!readable || findings.contains("doing")) {
    result["outcome"] = "failed";
    result["why"] = "ended without an answer";
  } else {
    result["outcome"] = "answered";
  }
  if (readable && findings.contains("doing")) result["doing"] = findings["doing"];
  if (readable) result["answer"] = findings["answer"];
}

}  // namespace

Supervisor::Supervisor(fs::path out, Json about, const std::vector<Task>& tasks, TaskCommand command, double seconds)
    : out_(std::move(out)),
      parts_(out_.string() + ".parts"),
      command_(std::move(command)),
      seconds_(seconds),
      results_(std::move(about)) {
  if (out_.has_parent_path()) fs::create_directories(out_.parent_path());
  fs::remove_all(parts_);
  fs::create_directories(parts_);
  for (const Task& task : tasks) results_["questions"][task.name] = {{"text", task.text}, {"outcome", "not asked"}};
  save();
}

Supervisor::~Supervisor() {
  std::error_code ignored;
  fs::remove_all(parts_, ignored);
}

double Supervisor::seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

void Supervisor::save() {
  results_["seconds"] = rounded(seconds());
  write_json(out_, results_);
}

Json Supervisor::answer_of(const Task& task, double limit) {
  const fs::path answer = parts_ / (task.name + ".json"), log = parts_ / (task.name + ".log");
  const double start = seconds();
  Process process({.words = command_(task, answer), .log = log});
  const std::optional<int> status = process.wait(limit);
  Json result = {{"text", task.text}};
  judge(result, Json::parse(read(answer), nullptr, false), status, limit);
  if (!process.kill()) result["still_there"] = true;
  result["seconds"] = rounded(seconds() - start);
  if (const std::string said = end_of(read(log)); !said.empty()) result["said"] = said;
  return result;
}

const Json& Supervisor::ask(const Task& task) {
  Json& result = results_["questions"][task.name];
  const double limit = std::min(task.seconds, seconds_ - seconds());
  if (limit < kLeast) {
    leave_out(task, "there was no time left");
    return result;
  }
  result["outcome"] = "being asked";
  save();
  try {
    result = answer_of(task, limit);
  } catch (const std::exception& error) {
    result = {{"text", task.text}, {"outcome", "failed"}, {"why", error.what()}};
  }
  save();
  return result;
}

void Supervisor::leave_out(const Task& task, const std::string& why) {
  results_["questions"][task.name] = {{"text", task.text}, {"outcome", "not asked"}, {"why", why}};
  save();
}

void Supervisor::remark(const std::string& key, const Json& value) {
  results_[key] = value;
  save();
}

bool Supervisor::all_answered() const {
  const Json& questions = results_["questions"];
  return std::all_of(questions.begin(), questions.end(), [](const Json& result) { return result["outcome"] == "answered"; });
}

}  // namespace millrace::gpu
