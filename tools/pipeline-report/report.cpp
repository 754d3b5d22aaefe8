#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <assets.h>  // made by embed.cmake
#include "base/json.h"
#include "common/text_table.h"
#include "config/difference.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/util/html.h"

namespace millrace {
namespace {

using Cells = std::vector<std::string>;

struct Grid {
  Cells headings;
  std::vector<Cells> rows;
  // What a page sorts the rows by: of each column whether its least comes first, and of each cell its number, NaN for none.
  std::vector<bool> low_first = {};
  std::vector<std::vector<double>> numbers = {};
};

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostBeside = 4;  // runs whose values stand beside each other; of more, each has a row
constexpr std::size_t kMostKeys = 12;   // that stand in a page's table of figures

// `digits`: significant ones; 0: a whole number.
std::string figure_text(double value, int digits) {
  if (!std::isfinite(value)) return "not finite";
  return digits == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.{}g}", value, digits);
}

// Of runs that an earlier version has recorded, by its name.
bool is_better_when_low(const std::vector<RunRecord>& runs, const std::string& figure) {
  const auto is_high = [&](const RunRecord& run) { return run.higher_is_better.contains(figure); };
  if (std::ranges::any_of(runs, is_high)) return false;
  for (const char* part : {"loss", "error", "mae", "mse", "seconds", "step"}) {
    if (figure.find(part) != std::string::npos) return true;
  }
  return false;
}

// "validate.accuracy" for "accuracy"; "": no run has it.
std::string full_name(const std::vector<RunRecord>& runs, const std::string& figure) {
  std::string found;
  for (const RunRecord& run : runs) {
    for (const auto& [name, value] : run.figures) {
      if (name == figure) return name;
      if (name.ends_with("." + figure) && (found.empty() || !name.starts_with("train."))) found = name;
    }
  }
  return found;
}

std::set<std::string> figure_names(const std::vector<RunRecord>& runs) {
  std::set<std::string> names;
  for (const RunRecord& run : runs) {
    for (const auto& [name, value] : run.figures) names.insert(name);
  }
  return names;
}

// Validation comes first. Of what is one of many, as the recall of a class, a column has what the rows are sorted by alone.
Grid figures_of(const std::vector<RunRecord>& runs, const std::string& sorted_by) {
  std::vector<std::string> names;
  const auto is_detail = [&](const std::string& name) {
    return name != sorted_by && std::ranges::any_of(runs, [&](const RunRecord& run) { return run.details.contains(name); });
  };
  for (const std::string& name : figure_names(runs)) {
    if (name != "images_per_second" && !is_detail(name)) names.push_back(name);
  }
  std::ranges::stable_partition(names, [](const std::string& name) { return !name.starts_with("train."); });
  Grid grid{{"run", "state", "steps"}, {}, {true, true, false}};
  for (const std::string& name : names) {
    grid.headings.push_back(name);
    grid.low_first.push_back(is_better_when_low(runs, name));
  }
  grid.headings.insert(grid.headings.end(), {"images/s", "time"});
  grid.low_first.insert(grid.low_first.end(), {false, true});
  names.emplace_back("images_per_second");
  for (const RunRecord& run : runs) {
    Cells cells = {run.name, run.state, run.state == "evaluation" ? "" : fmt::format("{}/{}", run.step, run.steps)};
    std::vector<double> numbers = {kNone, kNone, static_cast<double>(run.step)};
    for (const std::string& name : names) {
      const auto found = run.figures.find(name);
      numbers.push_back(found == run.figures.end() ? kNone : found->second);
      cells.push_back(found == run.figures.end() ? "" : figure_text(found->second, name == "images_per_second" ? 0 : 4));
    }
    cells.push_back(duration_text(run.seconds));
    numbers.push_back(run.seconds);
    grid.rows.push_back(std::move(cells));
    grid.numbers.push_back(std::move(numbers));
  }
  return grid;
}

// The keys that differ, with the value of each run; "-" where it has none.
std::map<std::string, Cells> differing_keys(const std::vector<RunRecord>& runs) {
  std::map<std::string, Cells> keys;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    for (const Difference& each : differences(runs[0].pipeline, runs[i].pipeline, {"run.name", "run.folder"})) {
      Cells& values = keys.try_emplace(each.key, runs.size(), each.then).first->second;
      values[i] = each.now;
    }
  }
  for (auto& [key, values] : keys) std::ranges::replace(values, "", "-");
  return keys;
}

// A row for each key; of many runs a row for each, in their order, since columns of so many fit no screen.
Grid differences_of(const std::vector<RunRecord>& runs) {
  const std::map<std::string, Cells> keys = differing_keys(runs);
  const bool beside = runs.size() <= kMostBeside;
  Grid grid{{beside ? "key" : "run"}, {}};
  if (keys.empty()) return grid;
  for (const RunRecord& run : runs) {
    if (beside) {
      grid.headings.push_back(run.name);
    } else {
      grid.rows.push_back({run.name});
    }
  }
  for (const auto& [key, values] : keys) {
    if (beside) {
      grid.rows.push_back({key});
      grid.rows.back().insert(grid.rows.back().end(), values.begin(), values.end());
      continue;
    }
    grid.headings.push_back(key);
    for (std::size_t i = 0; i < runs.size(); ++i) grid.rows[i].push_back(values[i]);
  }
  return grid;
}

// For a page, which sorts by them too.
void add_keys(Grid& figures, const std::map<std::string, Cells>& keys) {
  for (const auto& [key, values] : keys) {
    figures.headings.push_back(key);
    figures.low_first.push_back(true);
    for (std::size_t i = 0; i < values.size(); ++i) {
      double number = 0;
      const char* const end = values[i].data() + values[i].size();
      const auto read = std::from_chars(values[i].data(), end, number);
      figures.rows[i].push_back(values[i]);
      figures.numbers[i].push_back(read.ec == std::errc() && read.ptr == end ? number : kNone);
    }
  }
}

std::string text_of(const Grid& grid, bool figures) {
  Cells headings = grid.headings;
  for (std::size_t i = 2; figures && i < headings.size(); ++i) headings[i].insert(0, ">");
  TextTable table(headings, 0);
  for (const Cells& row : grid.rows) table.row(row);
  return table.text();
}

Json json_of(const Grid& grid) {
  return {{"headings", grid.headings}, {"rows", grid.rows}, {"low_first", grid.low_first}, {"numbers", grid.numbers}};
}

}  // namespace

void sort_runs(std::vector<RunRecord>& runs, const std::string& figure) {
  if (figure == "name") return std::ranges::stable_sort(runs, {}, &RunRecord::name), void();
  const std::string name = full_name(runs, figure);
  if (name.empty() && figure != "seconds" && figure != "step") {
    fail(ErrorKind::usage, "--sort {}: no run has this figure; there are name, seconds, step, {}", figure,
         fmt::join(figure_names(runs), ", "));
  }
  const auto place = [&](const RunRecord& run) {
    if (name.empty()) return figure == "step" ? -static_cast<double>(run.step) : run.seconds;
    const auto found = run.figures.find(name);
    if (found == run.figures.end() || !std::isfinite(found->second)) return std::numeric_limits<double>::infinity();
    return is_better_when_low(runs, name) ? found->second : -found->second;
  };
  std::ranges::stable_sort(runs, {}, place);
}

std::string runs_table(const std::vector<RunRecord>& runs, const std::string& sorted_by) {
  return text_of(figures_of(runs, full_name(runs, sorted_by)), true);
}

std::string differences_table(const std::vector<RunRecord>& runs) {
  const Grid grid = differences_of(runs);
  return grid.rows.empty() ? std::string() : text_of(grid, false);
}

std::string comparison_page(const std::vector<RunRecord>& runs) {
  Grid figures = figures_of(runs, ""), different = differences_of(runs);
  const std::size_t measured = figures.headings.size();
  if (const auto keys = differing_keys(runs); runs.size() > kMostBeside && keys.size() <= kMostKeys) {
    add_keys(figures, keys);
    different.rows.clear();
  }
  Json data = {
      {"figures", json_of(figures)}, {"measured", measured}, {"differences", json_of(different)}, {"runs", Json::array()}};
  for (const RunRecord& run : runs) {
    Json curves = Json::object();
    for (const auto& [name, curve] : run.curves) {
      if (!run.details.contains(name)) curves[name] = Json::parse(curve.json());
    }
    data["runs"].push_back({{"name", run.name}, {"state", run.state}, {"curves", std::move(curves)}});
  }
  std::string page(page::kCompareHtml);
  page = with_part(std::move(page), "<!--style-->", fmt::format("<style>\n{}{}</style>", page::kPageCss, page::kCompareCss));
  page = with_part(std::move(page), "<!--script-->",
                   fmt::format("<script>\n{}</script>\n<script>\n{}</script>", page::kPlotJs, page::kCompareJs));
  return with_part(std::move(page), "<!--data-->",
                   fmt::format("<script type=\"application/json\" id=\"data\">{}</script>",
                               json_in_html(data.dump(-1, ' ', false, Json::error_handler_t::replace))));
}

}  // namespace millrace
