// The libraries' choices as text, saved with a run's weights, so that a later run computes the same.
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
// Removes the entry at the beginning of `bytes`. Empty if there is none.
std::optional<std::pair<std::string, std::string>> take_plan(std::string_view& bytes);

// Text by key, as bytes: a line with the format's name, then entries.
std::string encode_plans(const std::map<std::string, std::string>& entries);
std::optional<std::map<std::string, std::string>> decode_plans(std::string_view bytes);  // empty: damaged

// The choices of one planner, initialised from those of an earlier run. Earlier ones are valid only for the same device and
// library; otherwise a warning names the difference, and choices are made again.
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
