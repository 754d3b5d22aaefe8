#include "config/kept_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/json.h"
#include "files/file_sum.h"
#include "millrace/error.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// False if the file cannot be read, or has no stored sum.
bool is_edited(const std::string& path, const std::string& sha256) {
  try {
    return !sha256.empty() && is_there(path) && sha256_of_file(path) != sha256;
  } catch (const Error&) {
    return false;
  }
}

// The value of "train.read.path"; null if there is none.
Value* value_of(Value& document, std::string_view key) {
  Value* value = &document;
  while (value != nullptr && !key.empty()) {
    value = value->find(key.substr(0, key.find('.')));
    key.remove_prefix(std::min(key.find('.'), key.size() - 1) + 1);
  }
  return value;
}

// The copy names its files relative to the original list's folder.
void take_copy(const std::string& key, const fs::path& list, const fs::path& copy, Value& document) {
  Value* const path = value_of(document, key);
  if (path == nullptr) return;
  *path = Value(copy.string(), path->at());
  Value& source = *value_of(document, key.substr(0, key.rfind('.')));
  if (key.ends_with(".path") && source.find("root") == nullptr)
    source.set("root", Value(list.parent_path().string(), path->at()));
}

// Restores a path's original meaning; if the data were moved with the working folder of the run, the path is converted to the
// current location.
void follow_path(const fs::path& working_folder, Value& value) {
  if (value.kind() == Value::Kind::array) {
    for (Value& each : value.array()) follow_path(working_folder, each);
  }
  if (value.kind() != Value::Kind::text || !is_local_path(value.text())) return;
  const fs::path then = (working_folder / value.text()).lexically_normal(), near = then.lexically_relative(working_folder);
  if (is_there(then)) {
    value = Value(then.string(), value.at());
  } else if (fs::path(value.text()).is_absolute() && !near.empty() && is_there(near)) {
    value = Value(near.string(), value.at());
  }
}

void follow_paths(const fs::path& working_folder, Value& document) {
  if (Value* const folder = value_of(document, "checkpoint.folder")) follow_path(working_folder, *folder);
  for (Member& graph : document.table()) {
    if (graph.value.find("flow") == nullptr) continue;
    for (Member& stage : graph.value.table()) {
      if (stage.value.kind() != Value::Kind::table) continue;
      for (Member& key : stage.value.table()) {
        if (is_data_path(key.key)) follow_path(working_folder, key.value);
      }
    }
  }
}

void follow(const Json& record, const fs::path& run, const fs::path& file, Value& document, std::vector<std::string>& warnings) {
  const fs::path working_folder = record.at("working_folder").get<std::string>();
  Value* const use = value_of(document, "network.use");
  for (const Json& each : record.at("files")) {
    const auto what = each.at("what").get<std::string>(), path = each.at("path").get<std::string>();
    const std::string copy = what == "pipeline" ? file.string() : each.contains("copy") ? (run / each.at("copy")).string() : "";
    if (what == "weights") continue;  // the pipeline has their sum
    const bool is_named = what == "network" && use != nullptr && use->kind() == Value::Kind::text &&
                          (working_folder / use->text()).lexically_normal() == path;
    if (is_named) *use = Value(copy, use->at());  // by a checkpoint's pipeline
    const bool is_gone = what == "list" && !copy.empty() && !is_there(path);
    if (!is_gone && !is_edited(path, each.value("sha256", ""))) continue;
    if (what == "list" && !copy.empty()) take_copy(each.at("key").get<std::string>(), path, copy, document);
    warnings.push_back(fmt::format("the {} '{}' {} since the run in '{}' began: {}", what, path,
                                   is_gone ? "has gone" : "has been edited", run.string(),
                                   copy.empty() ? "the run kept no copy of a file this large, so its current contents are used"
                                                : fmt::format("the run's copy is used, '{}'", copy)));
  }
  follow_paths(working_folder, document);
}

}  // namespace

void follow_kept_run(const fs::path& file, Value& document, std::vector<std::string>& warnings) {
  if (file.filename() != kKeptPipeline || document.kind() != Value::Kind::table) return;
  fs::path run = fs::absolute(file).lexically_normal().parent_path();
  if (run.parent_path().filename() == "checkpoints") run = run.parent_path().parent_path();
  std::ifstream stream(run / kKeptRecord, std::ios::binary);
  try {
    if (stream) follow(Json::parse(stream), run, file, document, warnings);
  } catch (const Json::exception& error) {
    warnings.push_back(
        fmt::format("'{}' is not a record of a run, and is ignored: {}", (run / kKeptRecord).string(), error.what()));
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
