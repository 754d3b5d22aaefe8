// What libraries were chosen to do, as text that is saved with a run's weights, so that a later run computes the same.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace millrace::cuda {

// One entry: a line with the lengths of key and text and a checksum of both, then key and text, and the end of a line.
std::string encode_plan(const std::string& key, const std::string& text);
// Takes the entry with which `bytes` begin away. Nothing: they begin with none.
std::optional<std::pair<std::string, std::string>> take_plan(std::string_view& bytes);

// Text by key, as bytes: a line that names the format, then entries.
std::string encode_plans(const std::map<std::string, std::string>& entries);
std::optional<std::map<std::string, std::string>> decode_plans(std::string_view bytes);  // nothing: damaged

// The choices of one planner, and those of an earlier run that it starts from. The earlier ones count only where device and
// library are what they were; else a warning says what differs, and choices are made again.
//
//   PlanRecord record(saved, warn);
//   record.here("device", "NVIDIA H100");             // before anything is asked for
//   record.library("cuDNN", "91900");
//   if (const auto choice = record.find("cuDNN", shape)) ...
//   record.put("cuDNN", shape, choice);
//   record.text();                                     // for the next run
//
// Thread-safe.
class PlanRecord {
 public:
  using Warn = std::function<void(std::string_view)>;

  PlanRecord(const std::string& saved, Warn warn);  // "": nothing saved

  void here(const std::string& what, const std::string& is);  // what all choices depend on
  void library(const std::string& name, const std::string& version);
  // REQUIRES: library() has named it.
  std::optional<std::string> find(const std::string& library, const std::string& shape) const;
  void put(const std::string& library, const std::string& shape, const std::string& choice);
  // The library does not take back what find() gave.
  void refused(const std::string& library, const std::string& shape) const;

  std::string text() const;  // "": nothing was chosen

 private:
  bool differs(const std::string& what, const std::string& is);

  const Warn warn_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> saved_, chosen_;
};

}  // namespace millrace::cuda
