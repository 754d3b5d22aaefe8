// gpu-check's parts, and what they share.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "child.h"
#include "journal.h"
#include "setting.h"

namespace millrace::gpu {

// Time that is left.
class Budget {
 public:
  explicit Budget(double seconds) : seconds_(seconds) {}
  double left() const { return seconds_ - spent(); }
  double spent() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double seconds_;
};

double median(std::vector<double> values);  // 0 of none

// The last lines of a file, for a message.
std::string tail(const std::string& file, std::size_t lines = 3);

// The processor cores that this process may use, by number.
std::vector<int> allowed_cores();

// What a part works with.
struct PartContext {
  const Setting& setting;
  Report& report;
  const Json& machine;     // machine_in_a_process()
  std::vector<int> cores;  // that the part may use
  double seconds;          // that the part may take
};

// Each returns what stands under its name in results.json: "outcome" is passed, failed, skipped, measured or unfinished, with
// "why" where something went wrong. What they throw costs the part alone.
Json questions_part(const PartContext& context);
Json agreement_part(const PartContext& context);
Json throughput_part(const PartContext& context);
Json accuracy_part(const PartContext& context);
Json files_part(const PartContext& context);
Json rest_part(const PartContext& context);
Json sanitizer_part(const PartContext& context);

// {"outcome": "skipped", "why": why}, and a row that says so.
Json skipped(Report& report, const std::string& what, const std::string& why);

// The machine, its driver and its device, looked at in this process.
Json machine(const Setting& setting);
// The same, looked at by another process, so that a driver that hangs or crashes costs no run. {"error": ...} then.
Json machine_in_a_process(const Setting& setting, double limit);
// Of the first device, as nvidia-smi takes it: a UUID where there is one.
std::string device_id(const Json& machine);

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

}  // namespace millrace::gpu
