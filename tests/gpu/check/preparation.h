// What the parts that measure need beforehand, made while the agreement tests leave the device and some cores idle: CIFAR-10 out
// of its archive, drawn photographs, and PyTorch's compiled kernels. Nothing of it may run while something is timed.
#pragma once

#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "check.h"

namespace millrace::gpu {

// The folder with CIFAR-10's train/ and test/: --data itself, or what was unpacked of it. Empty: there is none (yet).
std::filesystem::path find_images(const Setting& setting);

// Draws JPEG images into setting.photographs(), unless they lie there. false: the log "shapes" says why not.
bool make_photographs(const Setting& setting, double limit);

// A tar archive into `folder`, which appears when it is complete. By tar where that knows the compression, else by Python.
// Returns what went wrong; empty: nothing.
std::string unpack(const Setting& setting, const std::filesystem::path& archive, const std::filesystem::path& folder,
                   double limit);

// peers/airbench.py over find_images().
Command airbench_peer(const Setting& setting, const std::vector<std::string>& more);

class Preparation {
 public:
  // Goes on in a thread and in processes that have `cores` to themselves. Reports what it made.
  Preparation(const Setting& setting, Report report, std::vector<int> cores, double limit);

  // Waits until it is done, or until its limit has ended it.
  void finish() { done_.wait(); }

 private:
  void run();
  void step(const std::string& what, const std::function<std::string()>& make);  // make() returns what went wrong
  std::string compile(const Command& command);

  const Setting& setting_;
  Report report_;
  const std::vector<int> cores_;
  const Budget budget_;
  std::future<void> done_;
};

}  // namespace millrace::gpu
