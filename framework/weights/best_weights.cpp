#include "weights/best_weights.h"

#include <fmt/format.h>

#include <charconv>

#include "millrace/error.h"
#include "millrace/util/paths.h"
#include "millrace/util/text.h"
#include "util/json.h"
#include "weights/tensor_file.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr const char *kEntry = "best", *kStep = "step";  // keys of a file's metadata

// "" if the file cannot be read, or lacks the key.
std::string entry_of(const fs::path& file, const char* key) {
  try {
    const auto metadata = read_tensors_metadata(file.string());
    const auto entry = metadata.find(key);
    return entry == metadata.end() ? std::string() : entry->second;
  } catch (const Error&) {
    return {};
  }
}

// The name of weights that are set aside: branches may have their best at the same step.
fs::path name_aside(const fs::path& file, const Best& best) {
  for (int attempt = 1;; ++attempt) {
    const std::string number = attempt == 1 ? "" : fmt::format(".{}", attempt);
    fs::path path = file.parent_path() / fmt::format("best-step-{}{}.safetensors", best.step, number);
    std::error_code ignored;
    if (!fs::exists(path, ignored) || best_in(path) == best) return path;
  }
}

// ", but 'model.safetensors'": a file of weights that other programs write into their folders.
std::string others_in(const fs::path& folder) {
  std::string first;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string(), ending = entry.path().extension().string();
    const bool is_weights =
        ending == ".safetensors" || ending == ".pth" || ending == ".pt" || ending == ".bin" || ending == ".ckpt";
    if (is_weights && (first.empty() || name < first)) first = name;
  }
  return first.empty() ? first : fmt::format(", but '{}'", line_text(first));
}

}  // namespace

fs::path weights_of_run(const fs::path& folder) {
  for (const char* name : {kBestWeights, kLastWeights}) {
    if (is_readable_file(folder / name)) return folder / name;
  }
  fail(ErrorKind::usage,
       "'{}' is a folder that holds neither {} nor {}{}: name the folder of a run, such as runs/NAME/latest, or a file",
       folder.string(), kBestWeights, kLastWeights, others_in(folder));
}

std::map<std::string, std::string> metadata_of(const Best& best) {
  const Json json = {{"figure", best.figure}, {"step", best.step}, {"value", best.value}};
  return {{kEntry, json.dump(-1, ' ', false, Json::error_handler_t::replace)}};
}

std::optional<Best> best_in(const fs::path& file) {
  try {
    const Json json = Json::parse(entry_of(file, kEntry));
    return Best{json.at("figure").get<std::string>(), json.at("step").get<std::uint64_t>(), json.at("value").get<double>()};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::map<std::string, std::string> metadata_of_last(std::uint64_t step) { return {{kStep, std::to_string(step)}}; }

std::optional<std::uint64_t> last_step_in(const fs::path& file) {
  const std::string text = entry_of(file, kStep);
  std::uint64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  const bool is_whole = !text.empty() && error == std::errc() && end == text.data() + text.size();
  return is_whole ? std::optional(step) : std::nullopt;
}

fs::path set_aside(const fs::path& file, const Best& there) {
  fs::path aside = name_aside(file, there);
  std::error_code error;
  fs::rename(file, aside, error);
  if (error) fail(ErrorKind::storage, "cannot rename '{}' to '{}': {}", file.string(), aside.string(), error.message());
  return aside;
}

}  // namespace millrace
