// Asks questions one after the other, each in a process of its own: a crash or a hang costs one question.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "findings.h"

namespace millrace::gpu {

struct Task {
  std::string name;
  std::string text;     // what is asked
  double seconds = 15;  // that it may take
};

// The program that answers a task: it writes a Findings file and ends with 0.
using TaskCommand = std::function<std::vector<std::string>(const Task& task, const std::filesystem::path& answer)>;

// Keeps `out` up to date: after each task it holds all that is known. Beside it lies the folder OUT.parts with what the tasks
// write and print; the destructor removes it. One thread uses it.
class Supervisor {
 public:
  // `about` begins the file. Tasks are listed as "not asked" until they are. `seconds`: for all of them together.
  Supervisor(std::filesystem::path out, Json about, const std::vector<Task>& tasks, TaskCommand command, double seconds);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Never throws for what the task does. What comes back, and stands in the file under "questions", is documented in README.md.
  const Json& ask(const Task& task);
  void leave_out(const Task& task, const std::string& why);
  void remark(const std::string& key, const Json& value);  // beside "questions"
  bool all_answered() const;

 private:
  Json answer_of(const Task& task, double limit);
  double seconds() const;
  void save();

  const std::filesystem::path out_, parts_;
  const TaskCommand command_;
  const double seconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Json results_;
};

}  // namespace millrace::gpu
