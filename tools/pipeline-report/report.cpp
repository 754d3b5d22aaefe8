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
};

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
  Grid grid{{"run", "state", "steps"}, {}};
  grid.headings.insert(grid.headings.end(), names.begin(), names.end());
  grid.headings.insert(grid.headings.end(), {"images/s", "time"});
  for (const RunRecord& run : runs) {
    Cells cells = {run.name, run.state, fmt::format("{}/{}", run.step, run.steps)};
    for (const std::string& name : names) {
      const auto found = run.figures.find(name);
      cells.push_back(found == run.figures.end() ? "" : fmt::format("{:.4g}", found->second));
    }
    const auto speed = run.figures.find("images_per_second");
    cells.push_back(speed == run.figures.end() ? "" : fmt::format("{:.0f}", speed->second));
    cells.push_back(duration_text(run.seconds));
    grid.rows.push_back(std::move(cells));
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

Json json_of(const Grid& grid) { return {{"headings", grid.headings}, {"rows", grid.rows}}; }

std::string replaced(std::string text, std::string_view mark, std::string_view by) {
  if (const std::size_t at = text.find(mark); at != std::string::npos) text.replace(at, mark.size(), by);
  return text;
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
  page = replaced(std::move(page), "<!--style-->", fmt::format("<style>\n{}{}</style>", page::kPageCss, page::kCompareCss));
  page = replaced(std::move(page), "<!--script-->",
                  fmt::format("<script>\n{}</script>\n<script>\n{}</script>", page::kPlotJs, page::kCompareJs));
  return replaced(std::move(page), "<!--data-->",
                  fmt::format("<script type=\"application/json\" id=\"data\">{}</script>",
                              json_in_html(data.dump(-1, ' ', false, Json::error_handler_t::replace))));
}

}  // namespace millrace
