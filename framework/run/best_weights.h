// best.safetensors in the folder of a run that goes on behind a checkpoint. Behind an older one the run leaves a course, and its
// best weights may be of steps that count no more: then the file is set aside, as "best-step-800.safetensors", and the best
// weights of the course that goes on take its place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "run/run_state.h"

namespace millrace {

// What such a file says of itself.
struct BestWeights {
  std::string figure;      // "validate.loss"
  std::uint64_t step = 0;  // done when the figure had this value
  double value = 0;
  friend bool operator==(const BestWeights&, const BestWeights&) = default;
};
std::map<std::string, std::string> metadata_of(const BestWeights& best);
// Nothing: there is no such file, it cannot be read, or it does not say.
std::optional<BestWeights> best_weights_in(const std::filesystem::path& file);

std::string best_key(const std::string& figure);  // of RunState::watched
// Those that a run in this state has written. Nothing: it has none.
std::optional<BestWeights> best_weights_of(const RunState& state, const std::string& figure);

// Whether what is in the file belongs to the run that goes on with `known`. One that goes on behind its newest checkpoint comes
// again to what is newer than that; one that leaves a course does not.
bool belongs(const std::optional<BestWeights>& there, const std::optional<BestWeights>& known, bool leaves_a_course);

// Returns the file's new name. Throws Error(storage).
std::filesystem::path set_aside(const std::filesystem::path& file, const BestWeights& there);
// Gives those that were set aside the name `file` again. False: they are not there.
bool take_back(const std::filesystem::path& file, const BestWeights& best);

}  // namespace millrace
