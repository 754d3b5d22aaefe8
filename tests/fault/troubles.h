// What happens to a run while it goes on: it is paused, its cores are taken, its disk fails for a while.
#pragma once

#include <map>
#include <optional>
#include <random>
#include <string>

#include "fault_runner.h"

namespace millrace::test {

// One trouble after the other, each kind once before the first comes again, in another order each time. Random numbers alone
// say which and how long.
class Troubles {
 public:
  struct Setting {
    std::string control = {};         // the file of FAULT_FILES_CONTROL; "": the disk does not fail
    double longest = 4, between = 5;  // seconds
  };
  Troubles(Setting setting, std::mt19937_64& random);

  // To be called often: begins a trouble when it is time, and ends the one that is under way.
  void look(const RunningProgram& program);
  void end(const RunningProgram& program);  // nothing is under way after this
  bool is_calm() const { return now_.empty(); }
  const std::map<std::string, int>& seen() const { return seen_; }  // how often each kind was there
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

double seconds_now();  // of a clock that never goes back

}  // namespace millrace::test
