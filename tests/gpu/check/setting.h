// What gpu-check was asked to do, and where its pieces lie.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "schedule.h"

namespace millrace::gpu {

enum class Action { watch, stop, machine, help };

struct Setting {
  Action action = Action::watch;
  std::vector<std::string> parts;    // empty: all
  std::filesystem::path programs;    // bin
  std::filesystem::path tests;       // GPU tests and benchmarks
  std::filesystem::path pipelines;   // what is shipped
  std::filesystem::path own;         // peers/, pipelines/: of tests/gpu
  std::filesystem::path self;        // this program
  std::filesystem::path more_tests;  // another folder of gpu_* programs; may be empty
  std::filesystem::path out, state;
  std::string data;            // CIFAR-10 as JPEG files: a folder, or an archive of one; may be empty
  std::string plans;           // engine plans of an earlier visit: a file, a folder or results.tar.gz; may be empty
  std::string cuda_libraries;  // folders that a bundle's launcher chose
  std::string backend = "cuda";
  std::string python = "python3";
  std::string filter = "*";  // of tests
  double minutes = 24, watch_minutes = 9.5;
  double test_limit = 120;  // seconds
  int threads = 0;
  double accuracy = 0.9;           // that trainings must reach for their times to be compared
  std::vector<std::string> bench;  // more arguments for gpu_step_bench
  bool fresh = false;

  // gpu-check itself is tried, with a few images and steps on no GPU, and results.json says so.
  bool trial() const { return backend != "cuda"; }

  // In the state folder:
  std::filesystem::path journal() const { return state / "journal.jsonl"; }
  std::string log(const std::string& name) const { return (state / "logs" / (name + ".log")).string(); }
  std::filesystem::path plan_folder() const { return state / "cache/plans"; }
  std::filesystem::path images() const { return state / "cifar10"; }  // unpacked
  std::filesystem::path photographs() const { return state / "photographs"; }

  // What our programs are started with; the peers get the folders of PyTorch's compiler besides.
  std::map<std::string, std::string> environment() const;
  std::map<std::string, std::string> peer_environment() const;
};

// The parts, what is worth most first. Shares are seconds of 24 minutes.
const std::vector<PartTime>& all_parts();
std::vector<PartTime> chosen_parts(const Setting& setting);

// Throws Error(usage).
Setting read_arguments(int count, char** words);
std::string help();

}  // namespace millrace::gpu
