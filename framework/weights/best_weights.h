// The files of weights in a run's folder and their metadata: the step and, for the best ones, the metric and its value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace millrace {

inline constexpr const char *kLastWeights = "weights.safetensors", *kBestWeights = "best.safetensors";

// The best weights in the folder of a run, or else the last ones. Throws Error(usage) if there are none.
std::filesystem::path weights_of_run(const std::filesystem::path& folder);

struct Best {
  std::string figure;      // "validate.loss"
  std::uint64_t step = 0;  // steps done when the metric had this value
  double value = 0;
  friend bool operator==(const Best&, const Best&) = default;
};

// For the file's metadata.
std::map<std::string, std::string> metadata_of(const Best& best);
// Empty if the file is missing, unreadable, or without these metadata.
std::optional<Best> best_in(const std::filesystem::path& file);

// Likewise for the last weights. Empty also if an earlier version wrote them.
std::map<std::string, std::string> metadata_of_last(std::uint64_t step);
std::optional<std::uint64_t> last_step_in(const std::filesystem::path& file);

// Renames weights of an abandoned branch of the run to "best-step-800.safetensors", and returns the path. Throws Error(storage).
std::filesystem::path set_aside(const std::filesystem::path& file, const Best& there);

}  // namespace millrace
