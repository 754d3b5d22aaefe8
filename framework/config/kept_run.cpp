#include "config/kept_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/json.h"
#include "files/file_sum.h"
#include "millrace/error.h"
#include "millrace/util/sha256.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::int64_t time_of_change(const fs::path& path) {
  std::error_code ignored;
  return static_cast<std::int64_t>(fs::last_write_time(path, ignored).time_since_epoch().count());
}

// False where that cannot be told.
bool is_edited(const KeptFile& kept) {
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(kept.path, error);
  if (error) return false;
  if (bytes != kept.bytes) return true;
  if (time_of_change(kept.path) == kept.changed || kept.sha256.empty() || !has_sha256()) return false;
  try {
    return sha256_of_file(kept.path) != kept.sha256;
  } catch (const Error&) {
    return false;
  }
}

// The value of "train.read.path"; null: there is none.
Value* value_of(Value& document, std::string_view key) {
  Value* value = &document;
  while (value != nullptr && !key.empty()) {
    value = value->find(key.substr(0, key.find('.')));
    key.remove_prefix(std::min(key.find('.'), key.size() - 1) + 1);
  }
  return value;
}

// A list that was edited, or is gone: the run's copy names its files as the list did, from where that lay.
void take_copy(const KeptFile& list, const fs::path& folder, Value& document) {
  Value* const path = value_of(document, list.key);
  if (path == nullptr || path->kind() != Value::Kind::text) return;
  *path = Value((folder / list.copy).string(), path->at());
  const std::size_t dot = list.key.rfind('.');
  if (list.key.substr(dot + 1) != "path") return;
  Value& source = *value_of(document, list.key.substr(0, dot));
  if (source.find("root") == nullptr) source.set("root", Value(fs::path(list.path).parent_path().string(), path->at()));
}

void follow_list(const KeptFile& list, const fs::path& folder, Value& document, std::vector<std::string>& warnings) {
  const bool is_gone = !is_there(list.path);
  if (!is_gone && !is_edited(list)) return;
  const bool has_copy = !list.copy.empty() && is_there(folder / list.copy);
  if (is_gone && !has_copy) return;  // who reads it says so
  if (has_copy) take_copy(list, folder, document);
  warnings.push_back(fmt::format("the list '{}' {} since the run in '{}' began: {}", list.path,
                                 is_gone ? "has gone" : "has been edited", folder.string(),
                                 has_copy ? fmt::format("the run's copy '{}' is used", (folder / list.copy).string())
                                          : "the run kept no copy of so large a file, and the list is used as it is now"));
}

// A path as the run meant it; of data that were moved with the folder in which the run was started, as it is seen from here.
void follow_data(const fs::path& working_folder, Value& value) {
  if (value.kind() == Value::Kind::array) {
    for (Value& each : value.array()) follow_data(working_folder, each);
  }
  if (value.kind() != Value::Kind::text || !is_local_path(value.text())) return;
  const fs::path then = (working_folder / value.text()).lexically_normal(), near = then.lexically_relative(working_folder);
  if (is_there(then)) {
    value = Value(then.string(), value.at());
  } else if (fs::path(value.text()).is_absolute() && !near.empty() && is_there(near)) {
    value = Value(near.string(), value.at());
  }
}

// The folder of the run that has left the file, or the checkpoint in which it lies; "": it is another file.
fs::path run_of(const fs::path& file) {
  const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  if (file.filename() != kKeptPipeline) return {};
  if (is_there(folder / kKeptRecord)) return folder;
  const bool is_checkpoint = folder.parent_path().filename() == "checkpoints";
  return is_checkpoint ? folder.parent_path().parent_path() : fs::path();
}

}  // namespace

KeptFile file_now(std::string what, std::string key, const fs::path& path) {
  KeptFile file{
      .what = std::move(what), .key = std::move(key), .path = fs::absolute(path).lexically_normal().string(), .sha256 = {}};
  std::error_code error;
  file.bytes = fs::file_size(path, error);
  if (error) fail(ErrorKind::storage, "'{}' cannot be read: {}", path.string(), error.message());
  file.changed = time_of_change(path);
  if (has_sha256()) file.sha256 = sha256_of_file(path.string());
  return file;
}

std::string to_json(const KeptRun& kept) {
  Json files = Json::array();
  for (const KeptFile& file : kept.files) {
    Json& each =
        files.emplace_back(Json{{"what", file.what}, {"path", file.path}, {"bytes", file.bytes}, {"changed", file.changed}});
    if (!file.key.empty()) each["key"] = file.key;
    if (!file.sha256.empty()) each["sha256"] = file.sha256;
    if (!file.copy.empty()) each["copy"] = file.copy;
  }
  const Json json = {
      {"versions", kept.versions}, {"working_folder", kept.working_folder}, {"files", std::move(files)}, {"data", kept.data}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<KeptRun> read_kept_run(const fs::path& folder) {
  std::ifstream file(folder / kKeptRecord, std::ios::binary);
  if (!file) return std::nullopt;
  try {
    const Json json = Json::parse(file);
    KeptRun kept{.working_folder = json.at("working_folder").get<std::string>(), .files = {}};
    for (const Json& each : json.at("files")) {
      kept.files.push_back({.what = each.at("what").get<std::string>(),
                            .key = each.value("key", ""),
                            .path = each.at("path").get<std::string>(),
                            .sha256 = each.value("sha256", ""),
                            .bytes = each.at("bytes").get<std::uint64_t>(),
                            .changed = each.at("changed").get<std::int64_t>(),
                            .copy = each.value("copy", "")});
    }
    return kept;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void follow_kept_run(const fs::path& file, Value& document, std::vector<std::string>& warnings) {
  const fs::path run = run_of(file);
  const std::optional<KeptRun> kept = run.empty() ? std::nullopt : read_kept_run(run);
  if (!kept || document.kind() != Value::Kind::table) return;
  const auto warn = [&](const std::string& what, const fs::path& used) {
    warnings.push_back(fmt::format("{} has been edited since the run in '{}' began: the run's copy is used, '{}'", what,
                                   run.string(), used.string()));
  };
  Value* const use = value_of(document, "network.use");
  for (const KeptFile& each : kept->files) {
    if (each.what == "list") follow_list(each, run, document, warnings);
    if (each.what == "pipeline" && is_edited(each)) warn(fmt::format("'{}'", each.path), file);
    if (each.what != "network" || each.copy.empty()) continue;
    const bool is_named = use != nullptr && use->kind() == Value::Kind::text &&
                          (fs::path(kept->working_folder) / use->text()).lexically_normal() == each.path;
    if (is_named) *use = Value((run / each.copy).string(), use->at());  // of a checkpoint
    if (is_edited(each)) warn(fmt::format("the network '{}'", each.path), run / each.copy);
  }
  if (Value* const folder = value_of(document, "checkpoint.folder")) follow_data(kept->working_folder, *folder);
  for (Member& graph : document.table()) {
    if (graph.value.find("flow") == nullptr) continue;
    for (Member& stage : graph.value.table()) {
      if (stage.value.kind() != Value::Kind::table) continue;
      for (Member& key : stage.value.table()) {
        if (is_data_path(key.key)) follow_data(kept->working_folder, key.value);
      }
    }
  }
}

bool is_data_path(std::string_view key) {
  static constexpr std::array kKeys = {"path", "paths", "root", "images", "labels", "list"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

bool is_local_path(const std::string& text) {
  return !text.empty() && text.find("://") == std::string::npos && text.find("${") == std::string::npos;
}

}  // namespace millrace
