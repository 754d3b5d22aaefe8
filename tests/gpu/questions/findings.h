// What one question finds, kept on disk as it is found.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace millrace::gpu {

using Json = nlohmann::ordered_json;

// Replaces the file at once: readers see what was there before or all of the new. Throws Error(storage).
void write_json(const std::filesystem::path& file, const Json& json);

// A crash or a hang loses what is not found yet, and names what was being done. One thread uses it.
//
//   findings.doing("finalising engine 37");
//   findings.answer["engines"].push_back(...);
//   findings.save();
class Findings {
 public:
  Findings(std::filesystem::path file, double seconds) : file_(std::move(file)), seconds_(seconds) {}

  Json answer = Json::object();

  void doing(const std::string& what);  // saves as well
  void save() const;
  void done();                          // nothing is being done any more; saves
  void failed(const std::string& why);  // saves

  // Of the seconds that the question should take; what is listed and not reached by then is counted, not tried.
  double left() const;
  const std::filesystem::path& file() const { return file_; }

 private:
  void write(const char* key, const std::string& text) const;

  const std::filesystem::path file_;
  const double seconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string doing_;
};

}  // namespace millrace::gpu
