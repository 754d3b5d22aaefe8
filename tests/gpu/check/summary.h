// What a journal says, in sum. Pure.
#pragma once

#include <string>
#include <vector>

#include "journal.h"

namespace millrace::gpu {

// results.json: "machine", "run" and, in the order in which they ran, "parts". A part that is not done has what is known of it.
Json summarise(const std::vector<Json>& events);

// Where a run stands.
struct Standing {
  bool started = false;
  bool stopped = false;            // by --stop
  int status = -1;                 // its exit status; -1: it has not finished
  double used = 0;                 // seconds in which a runner was at work since the last run that finished
  std::vector<std::string> ended;  // parts that need not run again
  std::string doing;               // the part, and the last test it told of; for a run that died
};
Standing standing_of(const std::vector<Json>& events);

// The exit status of a run with these results: 1 when a part failed, 4 when nothing but "skipped" is in it, else 0.
int status_of(const Json& results);

// The last lines of a watch: each part's outcome, and how well the device agrees with the CPU.
std::string table_of(const Json& results);

// What a watcher prints for an event, with its line end. Empty: nothing. Tests that passed are counted in the part's last line.
std::string line_for(const Json& event);

}  // namespace millrace::gpu
