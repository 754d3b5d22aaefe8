// The folders that runs get, and their names.
#pragma once

#include <compare>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// "2026-01-01T00-00-00"; for another run of the same second, "2026-01-01T00-00-00-2". Clocks may be wrong: RunPlaces decides
// which run is newer.
struct RunName {
  std::string time;
  std::uint64_t number = 1;
  std::string text() const;
  friend auto operator<=>(const RunName&, const RunName&) = default;
};
// In UTC, so that names sort by time in all time zones and all year.
RunName run_name_at(std::time_t time);
// The name of a run that begins now, next to the runs `there`. Those may be named up to a day ahead, if a clock was set back or
// by earlier versions, which used local time. The new name sorts after them.
RunName next_run_name(std::time_t now, const std::vector<RunName>& there);
// Empty if this is not the name of a run. Such a folder is a user's, for example a copy of a run.
std::optional<RunName> read_run_name(std::string_view name);

// Makes runs/<name>/<date>T<time>/, with a number appended if that exists. Throws Error(usage) naming the folder.
std::filesystem::path make_run_folder(const std::filesystem::path& parent, const std::string& name);
// Points the symbolic link runs/<name>/latest to the folder of a run. The link is replaced atomically. A user's own file there
// is left alone. Returns why it failed, or "".
std::string point_latest_to(const std::filesystem::path& folder);
// Name of the run that `latest` leads to in `runs`, the folder of all runs of a name. "" without a link.
std::string latest_run(const std::filesystem::path& runs);
// Resolves a link such as `latest`, which will lead to later runs.
std::filesystem::path without_link(std::filesystem::path folder);
// Throws Error(usage), which begins with `asked`, if this folder has neither a run's pipeline nor checkpoints. `may_be_gone`:
// its checkpoints lie elsewhere.
void require_run_folder(std::string_view asked, const std::filesystem::path& folder, bool may_be_gone);

}  // namespace millrace
