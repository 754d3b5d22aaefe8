// --trace FILE[:FIRST-LAST]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/util/output_file.h"
#include "telemetry/trace.h"

namespace millrace {

// What the option asks for. Steps are numbered from 1 there.
struct TraceWish {
  std::string file;
  TraceSteps steps;
};
TraceWish trace_wish(std::string_view text);  // Throws Error(usage)
// What is wrong with it in a run that ends after so many steps; "": nothing.
std::string trace_mistake(const TraceWish& wish, std::uint64_t steps);
// Each of several processes writes a file: "out.json", "out.rank1.json".
std::string trace_file_name(const std::string& file, int rank);

// Takes a trace as long as it lives, and then writes it: also where the run has failed. Throws Error(storage) at once where the
// file cannot be made.
class TraceFile {
 public:
  TraceFile(const TraceWish& wish, int rank);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

 private:
  void write();

  const std::string path_;
  const int rank_;
  OutputFile file_;
  Trace trace_;
};

}  // namespace millrace
