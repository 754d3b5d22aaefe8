// The journal of a run: one JSON object a line, appended as soon as something is known. Everything else, the table that a watcher
// prints and results.json among it, is made from the journal, so whatever ends a run, what it has learned stays.
//
// Every event has "event" and "time" (seconds since 1970). Events and their further keys:
//   start     minutes, parts, backend, process    a runner begins, or goes on after one that died
//   machine   machine                             what the machine, its driver and its device are
//   begin     part, seconds                       what the part may take
//   test      part, program, test, result, seconds, text, records; result: passed, failed, skipped, hung or crashed
//   row       part, what, figure, remark          a line of the table
//   measured  part, value                         one measurement, before its part is done
//   end       part, result, seconds               result["outcome"]: passed, failed, skipped, measured or unfinished
//   stopped                                       by gpu-check --stop
//   finish    status                              the run's exit status
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace millrace::gpu {

using Json = nlohmann::ordered_json;

// Thread-safe. One process writes, which holds the state folder's lock; gpu-check --stop adds one line.
class Journal {
 public:
  explicit Journal(const std::filesystem::path& file);  // appends; ends a line that a killed process left without its end
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  void add(Json event);  // one write for the whole line; one that the disk refuses is lost, and said on standard error

 private:
  std::mutex mutex_;
  int file_ = -1;
};

// The events that end behind `offset`, which is moved behind them. A line without its end is left for the next call; a line that
// is no JSON object is passed over. Nothing when there is no such file.
std::vector<Json> read_events(const std::filesystem::path& file, std::uintmax_t& offset);
std::vector<Json> read_events(const std::filesystem::path& file);

// Journal entries of one part. Thread-safe.
class Report {
 public:
  Report(Journal& journal, std::string part) : journal_(journal), part_(std::move(part)) {}

  const std::string& part() const { return part_; }
  void row(const std::string& what, const std::string& figure, const std::string& remark = {});
  void measured(Json value) { add("measured", {{"value", std::move(value)}}); }
  void add(const std::string& event, Json more);

 private:
  Journal& journal_;
  const std::string part_;
};

}  // namespace millrace::gpu
