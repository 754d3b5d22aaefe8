// gpu-check's parts, and what they share.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "child.h"

namespace millrace::gpu {

using Json = nlohmann::ordered_json;

struct Setting {
  std::filesystem::path programs;   // bin
  std::filesystem::path tests;      // GPU tests and benchmarks
  std::filesystem::path pipelines;  // what is shipped
  std::filesystem::path own;        // peers/, pipelines/: of tests/gpu
  std::filesystem::path out;
  std::string data;  // CIFAR-10 as JPEG files; may be empty
  std::string backend = "cuda";
  std::string python = "python3";
  double limit = 300;  // seconds for a part: five of them take 25 minutes at most
  int threads = 0;
  double accuracy = 0.9;  // that trainings must reach for their times to be compared
  std::vector<std::string> bench;  // more arguments for gpu_step_bench

  // gpu-check itself is tried: a few images and steps on the CPU, and results.json says so.
  bool trial() const { return backend == "cpu"; }
  std::string log(const std::string& name) const { return (out / (name + ".log")).string(); }
};

// Time that a part has left.
class Budget {
 public:
  explicit Budget(double seconds) : seconds_(seconds) {}
  double left() const { return seconds_ - std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double seconds_;
};

// A row of the table, printed at once: "resnet50 bf16, Millrace        2,912.4 images/s".
void row(const std::string& what, const std::string& figure, const std::string& remark = {});

double median(std::vector<double> values);  // 0 of none

// Each returns what stands under its number in results.json; "outcome" is "passed", "failed", "skipped" or "measured".
Json tests_part(const Setting& setting);
Json sanitizer_part(const Setting& setting);
Json synthetic_part(const Setting& setting);
Json files_part(const Setting& setting);
Json airbench_part(const Setting& setting);

std::string device_id(const Setting& setting);  // of the first device, as nvidia-smi takes it: a UUID where there is one
Json machine(const Setting& setting);

// A program that measures when it is told to: gpu_step_bench and the peers with --serve.
class Partner {
 public:
  // Waits until it is ready, which may take a compiler's time. about()["error"] says why it will not be.
  Partner(const Command& command, double limit);
  bool ready() const { return about_.contains("ready"); }
  const Json& about() const { return about_; }
  Json ask(double limit);  // {} when no answer came

 private:
  Json next(double limit);

  std::unique_ptr<Child> child_;
  std::string log_;
  Json about_;
};

// The last lines of a file, for a message.
std::string tail(const std::string& file, std::size_t lines = 3);

}  // namespace millrace::gpu
