// Runs a pipeline for some seconds and measures it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measurement.h"
#include "millrace/plugin.h"

namespace millrace {

// Which pipeline, as the command line says it.
struct ProfiledFile {
  std::string file;
  std::vector<std::string> overrides;
  std::string devices, graph;
};

struct MeasureOptions {
  std::uint64_t steps = 20;  // at least, after a warm-up of a few
  double seconds = 5;        // at least
  double most_seconds = 60;  // after which fewer steps do
  bool layers = false;       // times the layers, which slows a step down, for DeviceFacts::bucket_ready
};

// Without running it. Throws Error where it is wrong.
RunFacts facts_of(const ProfiledFile& what, const Registry& registry);

// Nothing is written. Throws Error where the pipeline is wrong or fails, and where it ended before anything was measured.
Measurement measure(const ProfiledFile& what, const Registry& registry, const MeasureOptions& options = {});

}  // namespace millrace
