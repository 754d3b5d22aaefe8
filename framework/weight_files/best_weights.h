// The files of weights in a run's folder, and what they say of themselves: of which step they are, and the best ones of which
// figure and value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace millrace {

inline constexpr const char *kLastWeights = "weights.safetensors", *kBestWeights = "best.safetensors";

// The best weights in the folder of a run, or else the last ones. Throws Error(usage) where there are none.
std::filesystem::path weights_of_run(const std::filesystem::path& folder);

struct Best {
  std::string figure;      // "validate.loss"
  std::uint64_t step = 0;  // done when the figure had this value
  double value = 0;
  friend bool operator==(const Best&, const Best&) = default;
};

// As metadata of the file.
std::map<std::string, std::string> metadata_of(const Best& best);
// Nothing: there is no such file, it cannot be read, or it does not say.
std::optional<Best> best_in(const std::filesystem::path& file);

// The same of the last weights. Nothing, too: an earlier version has written them.
std::map<std::string, std::string> metadata_of_last(std::uint64_t step);
std::optional<std::uint64_t> last_step_in(const std::filesystem::path& file);

// Weights of an abandoned branch of the run: gives the file the name "best-step-800.safetensors", and returns it. Throws
// Error(storage).
std::filesystem::path set_aside(const std::filesystem::path& file, const Best& there);

}  // namespace millrace
