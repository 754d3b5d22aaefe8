#include "checkpoint/run_folder.h"

#include <fmt/chrono.h>

#include <algorithm>

#include "files/durable.h"
#include "millrace/error.h"

namespace millrace {
namespace {

constexpr std::string_view kDigitsOfTime = "dddd-dd-ddTdd-dd-dd";  // a digit for each d
constexpr std::size_t kMaxDigits = 9;                             // in the number

constexpr const char* kLatest = "latest";  // next to the runs of a name

bool is_digit_of_date(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string RunName::text() const { return number == 1 ? time : fmt::format("{}-{}", time, number); }

RunName run_name_at(std::time_t time) { return {fmt::format("{:%Y-%m-%dT%H-%M-%S}", fmt::gmtime(time))}; }

RunName next_run_name(std::time_t now, const std::vector<RunName>& there) {
  constexpr std::time_t kClocksDiffer = std::time_t{26} * 3600;  // time zones reach from -12 to +14 hours
  RunName next = run_name_at(now);
  const RunName latest = run_name_at(now + kClocksDiffer);
  for (const RunName& each : there) {
    if (each >= next && each.time <= latest.time) next = {each.time, each.number + 1};
  }
  return next;
}

std::optional<RunName> read_run_name(std::string_view name) {
  const auto fits = [](char c, char place) { return place == 'd' ? is_digit_of_date(c) : c == place; };
  const std::string_view time = name.substr(0, kDigitsOfTime.size());
  if (!std::ranges::equal(time, kDigitsOfTime, fits)) return std::nullopt;
  RunName read{std::string(time)};
  if (name == time) return read;
  const std::string_view number = name.substr(time.size() + 1);
  const bool is_number = !number.empty() && number.size() <= kMaxDigits && std::ranges::all_of(number, is_digit_of_date);
  if (!is_number) return std::nullopt;
  read.number = std::stoull(std::string(number));
  if (read.number < 2 || read.text() != name) return std::nullopt;
  return read;
}

std::filesystem::path make_run_folder(const std::filesystem::path& parent, const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path base = parent / name;
  std::error_code error;
  make_folder(base, error);
  std::vector<RunName> there;
  std::error_code ignored;
  for (fs::directory_iterator entry(base, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    if (const auto run = read_run_name(entry->path().filename().string())) there.push_back(*run);
  }
  for (RunName run = next_run_name(std::time(nullptr), there); !error; ++run.number) {
    const fs::path folder = base / run.text();
    if (!fs::create_directory(folder, error)) continue;
    sync_folder(base);  // else files synced in it later could be lost with its name
    return folder;
  }
  fail(ErrorKind::usage, "the run folder cannot be made in '{}': {}; choose another with run.folder", base.string(),
       error.message());
}

std::string point_latest_to(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  const fs::path run = folder.filename(), latest = folder.parent_path() / kLatest;
  const fs::path made = folder.parent_path() / fmt::format(".latest-{}", run.string());
  std::error_code error, ignored;
  if (fs::read_symlink(latest, ignored) == run) return {};
  const fs::file_status there = fs::symlink_status(latest, ignored);
  const bool is_free = !fs::exists(there) || fs::is_symlink(there);
  if (is_free) fs::create_directory_symlink(run, made, error);
  if (is_free && !error) fs::rename(made, latest, error);
  if (is_free && !error) return {};
  const std::string cause = error ? error.message() : "something other than a run's link is there";
  const std::string leads = latest_run(folder.parent_path());
  fs::remove(made, ignored);
  return fmt::format("'{}' does not link to this run, '{}': {}{}", latest.string(), folder.string(), cause,
                     leads.empty() ? "" : fmt::format("; it still links to '{}'", leads));
}

std::string latest_run(const std::filesystem::path& runs) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(runs / kLatest, error);
  return error ? std::string() : target.filename().string();
}

std::filesystem::path without_link(std::filesystem::path folder) {
  if (!folder.has_filename()) folder = folder.parent_path();  // "latest/"
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(folder, error);
  return error ? folder : folder.parent_path() / target;
}

void require_run_folder(std::string_view asked, const std::filesystem::path& folder, bool may_be_gone) {
  const auto exists = [](const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
  };
  const std::filesystem::path plain = folder.has_filename() ? folder : folder.parent_path();  // "RUN/checkpoints/"
  const std::filesystem::path run = plain.has_parent_path() ? plain.parent_path() : ".";
  if (plain.filename() == "checkpoints" && exists(run / "pipeline.toml")) {
    fail(ErrorKind::usage, "{}: '{}' holds the checkpoints of a run: name the run, '{}', or one of them, '{}/step-...'", asked,
         plain.string(), run.string(), plain.string());
  }
  if (may_be_gone || exists(folder / "pipeline.toml") || exists(folder / "checkpoints")) return;
  fail(ErrorKind::usage, "{}: '{}' is not a folder of a run", asked, folder.string());
}

}  // namespace millrace
