#include "checkpoint/run_places.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <string_view>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "util/folder_names.h"
#include "weights/fetched_weights.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

fs::path whole_path(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

// Contents of a file `number`; 0 if invalid.
std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

void RunPlaces::require_name() const {
  if (const std::string& folder = pipeline_.run.folder; folder.starts_with("~/")) {
    fail(ErrorKind::usage, "{}: run.folder = \"{}\" would be a folder named ~: write your home's path, or ${{env.HOME}}{}",
         pipeline_.place_of("run.folder"), folder, folder.substr(1));
  }
  const fs::path name = fs::path(pipeline_.run.name).lexically_normal();
  if (pipeline_.run.folder.empty() || (!name.empty() && name.is_relative() && *name.begin() != ".." && name != ".")) return;
  fail(ErrorKind::usage, "{}: run.name = \"{}\" leaves run.folder: a name is that of a folder in it, \"x\" or \"x/y\"",
       pipeline_.place_of("run.name"), pipeline_.run.name);
}

void RunPlaces::require_checkpoint_folder() const {
  if (!is_remote(folder())) return;
  try {
    Storage& objects = storage_of(registry_, folder());
    objects.kind(folder());
    objects.write(join_url(folder(), pipeline_.run.name));  // nothing is written without commit()
  } catch (Error& error) {
    throw error.in(pipeline_.place_of("checkpoint.folder") + ": checkpoint.folder");
  }
}

fs::path RunPlaces::runs() const { return fs::path(pipeline_.run.folder) / pipeline_.run.name; }

fs::path RunPlaces::name_of(const fs::path& run) const {
  const fs::path name = whole_path(run).lexically_relative(whole_path(pipeline_.run.folder));
  if (name.has_parent_path() && *name.begin() != "..") return name;
  return run.parent_path().filename() / run.filename();
}

fs::path RunPlaces::checkpoint_folder(const fs::path& run) const {
  return folder().empty() ? run / "checkpoints" : fs::path(folder()) / name_of(run);
}

std::unique_ptr<CheckpointPlace> RunPlaces::checkpoints(const fs::path& run) const {
  return checkpoint_place(checkpoint_folder(run), storage());
}

Storage* RunPlaces::storage() const { return is_remote(folder()) ? &storage_of(registry_, folder()) : nullptr; }

std::vector<RunPlaces::NumberedRun> RunPlaces::numbered_runs() const {
  const fs::path name = fs::path(pipeline_.run.name).lexically_normal(), all = fs::path(pipeline_.run.folder) / name;
  std::map<std::string, std::uint64_t> numbers;  // by run name
  if (Storage* const objects = storage()) {
    const std::string url = join_url(folder(), name.string());
    if (objects->is_empty(url)) return {};
    objects->list(url, [&](const Storage::Object& object) {
      const std::size_t slash = object.name.find('/');
      if (slash == std::string::npos) return;
      std::uint64_t& has_number = numbers[object.name.substr(0, slash)];
      if (object.name.substr(slash + 1) == kNumber) has_number = 1;
    });
    for (auto& [run, number] : numbers) {
      if (number == 0) continue;
      ByteBuffer bytes;
      objects->read(join_url(join_url(url, run), kNumber), bytes);
      number = number_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
  } else {
    for (const std::string& each : names_in(folder().empty() ? all : fs::path(folder()) / name)) {
      const fs::path checkpoints = checkpoint_folder(all / each);
      if (read_run_name(each) && has_folder(checkpoints)) numbers[each] = number_of(pointed_to(checkpoints, kNumber));
    }
  }
  const std::string latest = latest_run(all);
  std::vector<NumberedRun> found;
  for (const auto& [each, number] : numbers) {
    if (const auto run = read_run_name(each)) found.push_back({number, each == latest, *run});
  }
  return found;
}

std::vector<fs::path> RunPlaces::runs_with_checkpoints() const {
  std::vector<NumberedRun> found = numbered_runs();
  std::ranges::sort(found, std::ranges::greater());
  std::vector<fs::path> newest_first;
  for (const NumberedRun& run : found) {
    newest_first.push_back(fs::path(pipeline_.run.folder) / fs::path(pipeline_.run.name).lexically_normal() / run.name.text());
  }
  return newest_first;
}

std::uint64_t RunPlaces::next_number() const {
  std::uint64_t largest = 0;
  for (const NumberedRun& run : numbered_runs()) largest = std::max(largest, run.number);
  return largest + 1;
}

}  // namespace millrace
