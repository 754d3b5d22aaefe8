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

// "2026-01-01T00-00-00"; of a later one that began in the same second, "2026-01-01T00-00-00-2". Clocks may be wrong: which of two
// runs is newer says RunPlaces.
struct RunName {
  std::string time;
  std::uint64_t number = 1;
  std::string text() const;
  friend auto operator<=>(const RunName&, const RunName&) = default;
};
// In UTC, so that names have the order of the runs wherever and whenever in the year these begin.
RunName run_name_at(std::time_t time);
// The name of a run that begins now beside those of `there`. Runs may be named up to a day ahead, by a clock that was set back
// later or in local time, as earlier versions named them. The new name is later than those, so that a listing has the runs in
// order.
RunName next_run_name(std::time_t now, const std::vector<RunName>& there);
// Nothing: no run gets this name. Such a folder is a user's, as a copy of a run is.
std::optional<RunName> read_run_name(std::string_view name);

// Makes runs/<name>/<date>T<time>/ (a number is added when it exists). Throws Error(usage) naming the folder.
std::filesystem::path make_run_folder(const std::filesystem::path& parent, const std::string& name);
// Has the symbolic link runs/<name>/latest lead to the folder of a run. The link is replaced as a whole: a reader finds the old
// run or the new one. What a user has put there is left as it is. Returns why it does not lead there; "": it does.
std::string point_latest_to(const std::filesystem::path& folder);
// The run of `runs`, the folder of all runs of a name, to which `latest` leads: its name. "": there is no such link.
std::string latest_run(const std::filesystem::path& runs);
// The folder itself, where a link such as `latest` leads to it: that will lead to later runs.
std::filesystem::path without_link(std::filesystem::path folder);
// Throws Error(usage), which begins with `asked`, where no run has left its pipeline or checkpoints in this folder.
// `may_be_gone`: its checkpoints lie elsewhere.
void require_run_folder(std::string_view asked, const std::filesystem::path& folder, bool may_be_gone);

}  // namespace millrace
