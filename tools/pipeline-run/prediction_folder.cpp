#include "prediction_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>
#include <system_error>

#include "files/durable.h"
#include "millrace/error.h"
#include "millrace/util/paths.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr std::array<const char*, 3> kPictureFolders = {"evaluation", "images", "masks"};

// Names of files that a prediction writes: pipelines and results.
bool is_of_pipeline(const std::string& name) {
  static const std::regex kNames(R"((pipeline|network)(-\d+x\d+)?\.toml)");
  return std::regex_match(name, kNames);
}

bool is_result(const std::string& name) {
  static const std::regex kNames(
      R"(predictions\.(csv|jsonl)|features\.(safetensors|csv)|quarantine(-\d+x\d+)?\.jsonl|images(-\d+(x\d+)?)?\.csv)");
  return std::regex_match(name, kNames);
}

bool is_picture_folder(const std::string& name) {
  return std::find(kPictureFolders.begin(), kPictureFolders.end(), name) != kPictureFolders.end();
}

// The name that an unfinished file would have had; other files' own names. `abandoned`: no process is writing it now.
std::string finished_name(const std::string& name, bool& abandoned) {
  static const std::regex kUnfinished(R"((.+)\.new-(\d{1,9}))");
  std::smatch found;
  abandoned = false;
  if (!std::regex_match(name, found, kUnfinished)) return name;
  abandoned = ::kill(std::stoi(found[2]), 0) != 0 && errno == ESRCH;
  return found[1];
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return {};
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    entries.push_back(entry->path());
  }
  if (error) fail(ErrorKind::storage, "cannot list '{}': {}", folder.string(), error.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_made_by_predict(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  return std::getline(stream, line) && line.starts_with(kMadeByPredict);
}

bool lies_in(const fs::path& inner, const fs::path& outer) {
  std::error_code ignored;
  const fs::path in = fs::weakly_canonical(inner, ignored), out = fs::weakly_canonical(outer, ignored);
  return std::mismatch(out.begin(), out.end(), in.begin(), in.end()).first == out.end();
}

// Inputs and outputs must be distinguishable, in the next run too.
void check_apart(const std::string& folder, const std::string& read) {
  if (read.find("://") != std::string::npos) return;
  std::error_code ignored;
  const fs::path out = fs::absolute(folder), list = read;
  if (fs::is_directory(list, ignored) && lies_in(out, list)) {
    fail(ErrorKind::usage,
         "--out: '{}' is in '{}', whose images are read, and pictures of predictions would be read among them: name a folder "
         "next to it",
         folder, read);
  }
  const auto holds = [&](const char* pictures) { return lies_in(list, out / pictures); };
  const bool is_replaced = std::any_of(kPictureFolders.begin(), kPictureFolders.end(), holds) ||
                           (is_result(list.filename().string()) && fs::equivalent(list.parent_path(), out, ignored));
  if (!is_replaced) return;
  fail(ErrorKind::usage, "--out: predictions in '{}' would replace '{}', which is read: name another folder", folder, read);
}

void check_place(const std::string& folder, const std::vector<std::string>& read) {
  local_path("--out", folder);  // throws
  std::error_code ignored;
  for (fs::path part = fs::absolute(folder); part.has_relative_path(); part = part.parent_path()) {
    if (!fs::exists(part, ignored)) continue;
    if (!fs::is_directory(part, ignored)) fail(ErrorKind::usage, "--out: '{}' is a file: name a folder", part.string());
    break;
  }
  for (const std::string& each : read) check_apart(folder, each);
}

// Removes pictures and tables, and folders with nothing else.
void remove_pictures(const fs::path& folder) {
  std::vector<fs::path> found = {folder};
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    found.push_back(entry->path());
  }
  for (auto path = found.rbegin(); !error && path != found.rend(); ++path) {  // a folder's contents come before it
    bool abandoned = false;
    const std::string finished = finished_name(path->string(), abandoned);
    const bool removable = std::ranges::any_of(kOutputEndings, [&](std::string_view end) { return finished.ends_with(end); });
    if (fs::is_directory(*path, error)) {
      if (fs::is_empty(*path, error)) fs::remove(*path, error);
    } else if (removable && (abandoned || finished == path->string())) {
      fs::remove(*path, error);
    }
  }
  if (error) fail(ErrorKind::storage, "cannot remove old predictions in '{}': {}", folder.string(), error.message());
}

}  // namespace

void check_prediction_folder(const std::string& folder, const std::vector<std::string>& read) {
  check_place(folder, read);
  const std::vector<fs::path> entries = entries_of(folder);
  const bool ours = std::any_of(entries.begin(), entries.end(), [](const fs::path& entry) {
    return is_of_pipeline(entry.filename().string()) && is_made_by_predict(entry);
  });
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    const bool leads_elsewhere = is_picture_folder(name) && fs::is_symlink(fs::symlink_status(entry));
    const bool foreign = leads_elsewhere || (is_of_pipeline(name) ? !is_made_by_predict(entry)
                                                                  : !ours && (is_result(name) || is_picture_folder(name)));
    if (!foreign) continue;
    fail(ErrorKind::usage, "--out: '{}' is not of an earlier --predict, which would replace it: name another folder, or move it",
         entry.string());
  }
}

void remove_old_prediction(const std::string& folder, const MadeFiles& made) {
  for (const fs::path& entry : entries_of(folder)) {
    bool abandoned = false;
    const std::string name = entry.filename().string(), finished = finished_name(name, abandoned);
    if (is_picture_folder(name) && fs::is_directory(fs::symlink_status(entry))) remove_pictures(entry);
    const bool old = is_of_pipeline(finished) || is_result(finished);
    if (!old || made.has(entry) || (finished != name && !abandoned)) continue;
    std::error_code error;
    fs::remove(entry, error);
    if (error) fail(ErrorKind::storage, "cannot remove '{}' of an earlier prediction: {}", entry.string(), error.message());
  }
}

}  // namespace millrace
