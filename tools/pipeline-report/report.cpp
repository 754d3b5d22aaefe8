#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <assets.h>  // made by embed.cmake
#include "base/json.h"
#include "config/difference.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/util/html.h"
#include "common/text_table.h"

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

// `digits`: significant ones; 0: a whole number.
std::string figure_text(double value, int digits) {
  if (!std::isfinite(value)) return "not finite";
  return digits == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.{}g}", value, digits);
}

bool is_better_when_low(std::string_view figure) {
  for (const char* part : {"loss", "error", "mae", "mse", "seconds", "step"}) {
    if (figure.find(part) != std::string_view::npos) return true;
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

// Validation comes first.
Grid figures_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> names;
  for (const std::string& name : figure_names(runs)) {
    if (name != "images_per_second") names.push_back(name);
  }
  std::ranges::stable_partition(names, [](const std::string& name) { return !name.starts_with("train."); });
  Grid grid{{"run", "state", "steps"}, {}, {true, true, false}};
  for (const std::string& name : names) {
    grid.headings.push_back(name);
    grid.low_first.push_back(is_better_when_low(name));
  }
  grid.headings.insert(grid.headings.end(), {"images/s", "time"});
  grid.low_first.insert(grid.low_first.end(), {false, true});
  names.emplace_back("images_per_second");
  for (const RunRecord& run : runs) {
    Cells cells = {run.name, run.state, fmt::format("{}/{}", run.step, run.steps)};
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

Grid differences_of(const std::vector<RunRecord>& runs) {
  std::map<std::string, Cells> keys;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    for (const Difference& each : differences(runs[0].pipeline, runs[i].pipeline, {"run.name", "run.folder"})) {
      Cells& values = keys.try_emplace(each.key, runs.size(), each.then).first->second;
      values[i] = each.now;
    }
  }
  Grid grid{{"key"}, {}};
  for (const RunRecord& run : runs) grid.headings.push_back(run.name);
  for (auto& [key, values] : keys) {
    Cells cells = {key};
    for (std::string& value : values) cells.push_back(value.empty() ? "-" : std::move(value));
    grid.rows.push_back(std::move(cells));
  }
  return grid;
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
    return is_better_when_low(name) ? found->second : -found->second;
  };
  std::ranges::stable_sort(runs, {}, place);
}

std::string runs_table(const std::vector<RunRecord>& runs) { return text_of(figures_of(runs), true); }

std::string differences_table(const std::vector<RunRecord>& runs) {
  const Grid grid = differences_of(runs);
  return grid.rows.empty() ? std::string() : text_of(grid, false);
}

std::string comparison_page(const std::vector<RunRecord>& runs) {
  Json data = {{"figures", json_of(figures_of(runs))}, {"differences", json_of(differences_of(runs))}, {"runs", Json::array()}};
  for (const RunRecord& run : runs) {
    Json curves = Json::object();
    for (const auto& [name, curve] : run.curves) curves[name] = Json::parse(curve.json());
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
