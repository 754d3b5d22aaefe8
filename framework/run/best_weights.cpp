#include "run/best_weights.h"

#include <fmt/format.h>

#include "base/json.h"
#include "millrace/error.h"
#include "network/tensor_file.h"
#include "run/stop_rules.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr const char* kEntry = "best";  // of a file's metadata

// Where these lie when they are set aside: courses may have their best at the same step.
fs::path name_aside(const fs::path& file, const BestWeights& best) {
  for (int attempt = 1;; ++attempt) {
    const std::string number = attempt == 1 ? "" : fmt::format(".{}", attempt);
    fs::path path = file.parent_path() / fmt::format("best-step-{}{}.safetensors", best.step, number);
    std::error_code ignored;
    if (!fs::exists(path, ignored) || best_weights_in(path) == best) return path;
  }
}

}  // namespace

std::map<std::string, std::string> metadata_of(const BestWeights& best) {
  const Json json = {{"figure", best.figure}, {"step", best.step}, {"value", best.value}};
  return {{kEntry, json.dump(-1, ' ', false, Json::error_handler_t::replace)}};
}

std::optional<BestWeights> best_weights_in(const fs::path& file) {
  try {
    const auto metadata = read_tensors_metadata(file.string());
    const auto entry = metadata.find(kEntry);
    if (entry == metadata.end()) return std::nullopt;
    const Json json = Json::parse(entry->second);
    return BestWeights{json.at("figure").get<std::string>(), json.at("step").get<std::uint64_t>(),
                       json.at("value").get<double>()};
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string best_key(const std::string& figure) { return fmt::format("{} {}", StopRules::kBest, figure); }

std::optional<BestWeights> best_weights_of(const RunState& state, const std::string& figure) {
  const auto found = state.watched.find(best_key(figure));
  if (found == state.watched.end() || !found->second.best) return std::nullopt;
  return BestWeights{figure, found->second.best_step, *found->second.best};
}

bool belongs(const std::optional<BestWeights>& there, const std::optional<BestWeights>& known, bool leaves_a_course) {
  if (there == known) return true;
  if (leaves_a_course) return false;
  if (!known) return true;
  return there && (there->figure != known->figure || there->step >= known->step);
}

fs::path set_aside(const fs::path& file, const BestWeights& there) {
  fs::path aside = name_aside(file, there);
  std::error_code error;
  fs::rename(file, aside, error);
  if (error) fail(ErrorKind::storage, "cannot rename '{}' to '{}': {}", file.string(), aside.string(), error.message());
  return aside;
}

bool take_back(const fs::path& file, const BestWeights& best) {
  std::error_code error;
  const fs::path aside = name_aside(file, best);
  if (!fs::exists(aside, error)) return false;
  fs::rename(aside, file, error);
  return !error;
}

}  // namespace millrace
