// The names of the folders that runs get, by which the newest run is found.
#pragma once

#include <compare>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// "2026-01-01T00-00-00"; of a later one that began in the same second, "2026-01-01T00-00-00-2". The newer one is the larger.
struct RunName {
  std::string time;
  std::uint64_t number = 1;
  std::string text() const;
  friend auto operator<=>(const RunName&, const RunName&) = default;
};
// In UTC, so that names have the order of the runs wherever and whenever in the year these begin.
RunName run_name_at(std::time_t time);
// The name of a run that begins now beside those of `there`. Runs may be named up to a day ahead, by a clock that was set back
// later or in local time, as earlier versions named them. The new name is later than those: the newest run is found by name.
RunName next_run_name(std::time_t now, const std::vector<RunName>& there);
// Nothing: no run gets this name. Such a folder is a user's, as a copy of a run is.
std::optional<RunName> read_run_name(std::string_view name);

}  // namespace millrace
