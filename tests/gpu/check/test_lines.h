// What a GoogleTest program prints while it runs, test by test. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace millrace::gpu {

struct FinishedTest {
  std::string test;    // "Suite.Name"
  std::string result;  // passed, failed, skipped
  double seconds = 0;
  std::string text;                                                   // what it printed: failures, or why it was skipped
  nlohmann::ordered_json records = nlohmann::ordered_json::object();  // what it recorded (finished_tests.cpp)
};

class TestLines {
 public:
  std::optional<FinishedTest> read(const std::string& line);

  const std::string& running() const { return running_.test; }  // the test that has begun and not ended; empty: none
  const std::string& said() const { return running_.text; }     // what it has printed so far, cut to its first lines

 private:
  FinishedTest running_;
};

}  // namespace millrace::gpu
