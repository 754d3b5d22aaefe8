// Disturbs a run: pauses it, occupies its cores, makes its disk fail for a while.
#pragma once

#include <map>
#include <optional>
#include <random>
#include <string>

#include "fault_runner.h"

namespace millrace::test {

// One trouble after the other, each kind once before any repeats, in a random order. Only random numbers decide kind and
// duration.
class Troubles {
 public:
  struct Setting {
    std::string control = {};         // the file of FAULT_FILES_CONTROL; "": the disk does not fail
    double longest = 4, between = 5;  // seconds
  };
  Troubles(Setting setting, std::mt19937_64& random);

  // Called often: begins a trouble when it is time, and ends the current one.
  void look(const RunningProgram& program);
  void end(const RunningProgram& program);  // ends the current trouble
  bool is_calm() const { return now_.empty(); }
  const std::map<std::string, int>& seen() const { return seen_; }  // count of each kind
  std::size_t kinds() const { return kinds_.size(); }

 private:
  double draw(double longest);
  void begin(const RunningProgram& program, const std::string& kind);

  const Setting setting_;
  std::mt19937_64& random_;
  Words kinds_, left_;
  std::string now_;  // "": none
  double until_ = 0, next_ = 0;
  std::optional<Hogs> hogs_;
  std::map<std::string, int> seen_;
};

double seconds_now();  // from a monotonic clock

}  // namespace millrace::test
