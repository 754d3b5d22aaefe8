// Finds settings that make a pipeline faster on this machine: candidates by simulation, decided by short runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibration_run.h"
#include "millrace/plugin.h"
#include "what_if.h"

namespace millrace {

struct Settings {
  int threads = 1, io_threads = 1;
  std::uint32_t chunk = 0, buffers = 1;  // chunk 0: the run chooses it
  std::uint32_t batch = 0;               // only if the file leaves it to the run
  friend bool operator==(const Settings&, const Settings&) = default;
};
Settings settings_of(const RunFacts& facts);

struct Candidate {
  Settings settings;
  double predicted = 0;  // images per second
};
// The current settings first, then the most promising ones. Among equally good ones, the one with fewer threads and buffers.
std::vector<Candidate> candidates(const Calibration& measured, const Predictor& predictor, std::size_t most);

struct Tuned {
  RunFacts facts;  // the file's
  Settings before, after;
  double rate_before = 0, rate_after = 0;  // measured alternately
  struct Tried {
    Settings settings;
    double predicted = 0, measured = 0;
  };
  std::vector<Tried> tried;  // the current settings first; measured is 0 if time ran out
  double seconds = 0;
  std::size_t measured() const;
  bool has_compared() const { return measured() > 1; }  // the current settings with others
};

// Chooses within `seconds`, and a little more if a run starts slowly.
Tuned autotune(const ProfiledFile& what, const Registry& registry, double seconds);

std::string autotune_text(const Tuned& tuned);

// A file that extends `file` with `overrides` (as for --set) and with the chosen keys, each with its reason. REQUIRES:
// tuned.has_compared().
std::string autotune_toml(const Tuned& tuned, const std::string& file, const std::vector<std::string>& overrides = {});

}  // namespace millrace
