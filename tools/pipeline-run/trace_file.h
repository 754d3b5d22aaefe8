// --trace FILE[:FIRST-LAST]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/util/output_file.h"
#include "report/trace.h"

namespace millrace {

// The parsed option. Its steps are numbered from 1.
struct TraceWish {
  std::string file;
  TraceSteps steps;
};
TraceWish trace_wish(std::string_view text);  // Throws Error(usage)
// Its error in a run that ends after `steps` steps; "" if none.
std::string trace_mistake(const TraceWish& wish, std::uint64_t steps);
// With several processes, each writes a file: "out.json", "out.rank1.json".
std::string trace_file_name(const std::string& file, int rank);

// Records a trace while it lives, then writes it, also after a failed run. Throws Error(storage) at once if the file cannot be
// created.
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
