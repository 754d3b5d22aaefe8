// The libraries' choices as text, saved with a run's weights, so that a later run computes the same.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::cuda {

// The choices of one planner as text: a line with the format's name, then entries (millrace/backend/engine_choices.h).
// Initialised from those of an earlier run. Earlier ones are valid only for the same device and library; otherwise a warning
// names the difference, and choices are made again.
//
//   PlanRecord record(saved, warn);
//   record.here("device", "NVIDIA H100");             // before any other call
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

  void here(const std::string& what, const std::string& is);  // a property that all choices depend on
  void library(const std::string& name, const std::string& version);
  // REQUIRES: library() has named it.
  std::optional<std::string> find(const std::string& library, const std::string& shape) const;
  void put(const std::string& library, const std::string& shape, const std::string& choice);
  // The library rejects the result of find().
  void refused(const std::string& library, const std::string& shape) const;

  std::string text() const;  // "": no choices

 private:
  bool differs(const std::string& what, const std::string& is);

  const Warn warn_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> saved_, chosen_;
};

}  // namespace millrace::cuda
