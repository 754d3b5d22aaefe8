#include "checkpoint/run_places.h"

#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/run_folder.h"
#include "files/folder_names.h"
#include "millrace/error.h"
#include "millrace/storage.h"
#include "weight_files/fetched_weights.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

fs::path whole_path(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

}  // namespace

void RunPlaces::require_name() const {
  if (const std::string& folder = pipeline_.run.folder; folder.starts_with("~/")) {
    fail(ErrorKind::usage,
         "{}: run.folder = \"{}\" would be a folder that is called ~: write your home's path, or ${{env.HOME}}{}",
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
    objects.look(folder());
    objects.write(join_url(folder(), pipeline_.run.name));  // without commit() nothing is written
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

std::vector<fs::path> RunPlaces::runs_with_checkpoints() const {
  const fs::path name = fs::path(pipeline_.run.name).lexically_normal(), all = fs::path(pipeline_.run.folder) / name;
  std::set<std::string> names;
  if (Storage* const objects = storage()) {
    const std::string url = join_url(folder(), name.string());
    if (objects->is_empty(url)) return {};
    objects->list(url, [&](const Storage::Object& object) {
      const std::size_t slash = object.name.find('/');
      if (slash != std::string::npos) names.insert(object.name.substr(0, slash));
    });
  } else {
    for (const std::string& each : names_in(folder().empty() ? all : fs::path(folder()) / name)) {
      if (has_folder(checkpoint_folder(all / each))) names.insert(each);
    }
  }
  std::vector<std::pair<RunName, fs::path>> found;
  for (const std::string& each : names) {
    if (const auto run = read_run_name(each)) found.emplace_back(*run, all / each);
  }
  std::ranges::sort(found, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<fs::path> newest_first;
  for (auto& [run, path] : found) newest_first.push_back(std::move(path));
  return newest_first;
}

}  // namespace millrace
