#include "run/card.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/secrets.h"
#include "base/shell.h"
#include "checkpoint/run_folder.h"
#include "config/document.h"
#include "config/named_weights.h"
#include "millrace/backend/network.h"
#include "millrace/util/earlier_events.h"
#include "millrace/util/text.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxClasses = 100;

std::string markdown_row(std::string_view name, std::string_view value) { return fmt::format("| {} | {} |\n", name, value); }
std::string markdown_table(const std::string& rows) { return rows.empty() ? rows : "| | |\n|---|---|\n" + rows; }

// ": circle, cross": classes, or the labels or numbers that the source is asked for.
std::string names_of_outputs(const GraphData& data) {
  std::vector<std::string> names = data.classes;
  const Value* const numbers = data.source_plan != nullptr ? data.source_plan->table.find("numbers") : nullptr;
  if (names.empty() && numbers != nullptr && numbers->kind() == Value::Kind::array) {
    for (const Value& each : numbers->array()) {
      if (each.kind() == Value::Kind::text) names.push_back(each.text());
    }
  }
  if (names.empty()) return {};
  const std::size_t left = names.size() - std::min(names.size(), kMaxClasses);
  names.resize(names.size() - left);
  return fmt::format(": {}{}", fmt::join(names, ", "), left > 0 ? fmt::format(" and {} more", left) : "");
}

std::string network_rows(const PreparedRun& run) {
  const Network& network = *run.pipeline.network;
  std::uint64_t parameters = 0, fixed = 0;
  for (const Parameter& parameter : network.parameters) {
    if (parameter.statistic) continue;
    parameters += static_cast<std::uint64_t>(parameter.shape.elements());
    if (!parameter.trainable) fixed += static_cast<std::uint64_t>(parameter.shape.elements());
  }
  const std::string weights = without_secrets(named_weights(run.resolved()));
  return markdown_row("network", markdown_text(network.name)) +
         (weights.empty() ? "" : markdown_row("began from", markdown_text(weights))) +
         markdown_row("layers", std::to_string(network.layers.size())) +
         markdown_row("parameters", fmt::format("{}{}", parameters, fixed > 0 ? fmt::format(", {} of them fixed", fixed) : "")) +
         markdown_row("input", markdown_text(to_string(network.input))) +
         markdown_row("output", markdown_text(to_string(network.output()) + names_of_outputs(run.main().data())));
}

std::string data_rows(const GraphData& data) {
  std::string rows = markdown_row("samples of an epoch", std::to_string(data.samples_per_epoch));
  if (data.source != nullptr) {
    const Value* const path = data.source_plan->table.find("path");
    const bool named = path != nullptr && path->kind() == Value::Kind::text;
    rows = markdown_row("source", markdown_text(data.source_plan->type->name + (named ? " " + path->text() : ""))) + rows;
  }
  if (data.listing_hash != 0) rows += markdown_row("hash of the listing", fmt::format("`{:016x}`", data.listing_hash));
  if (data.fingerprint != 0) rows += markdown_row("fingerprint of the samples", fmt::format("`{:016x}`", data.fingerprint));
  return rows;
}

std::string class_rows(const GraphData& data) {
  const std::vector<std::string>& classes = data.classes;
  const std::vector<std::uint64_t>& counts = data.class_counts;
  std::string text;
  for (std::size_t i = 0; i < std::min(classes.size(), kMaxClasses); ++i) {
    text += markdown_row(markdown_text(classes[i]), i < counts.size() ? std::to_string(counts[i]) : "");
  }
  if (classes.size() > kMaxClasses) text += markdown_row("...", fmt::format("{} more", classes.size() - kMaxClasses));
  return text.empty() ? text : "\n| class | listed samples |\n|---|---:|\n" + text;
}

// "2026-01-01T00-00-00" of a run's name, with colons.
std::string time_in(const RunName& name) {
  std::string text = name.time;
  std::ranges::replace(text.begin() + static_cast<std::ptrdiff_t>(text.find('T')), text.end(), '-', ':');
  return text + "Z";
}

// When, and how long.
std::string run_rows(const RunContext& run, const Ended& result, const CardPlace& place) {
  const std::optional<ResumePoint>& from = run.prepared.resume_point;
  const auto named = read_run_name(place.folder.filename().string());  // by the time when it began
  const std::string began = from ? (named ? time_in(*named) : "") : utc_text(place.began);
  std::string rows = began.empty() ? began : markdown_row("began", began);
  if (from) rows += markdown_row("resumed", fmt::format("{}, after step {}", utc_text(place.began), run.steps().first));
  rows += markdown_row("ended", utc_text(std::time(nullptr)) + (result.stopped ? ", stopped before its last step" : ""));
  rows += markdown_row("steps", steps_text(result, run.main().data().steps_per_epoch()));
  if (result.best_found) {
    const Best& best = *result.best_found;
    rows += markdown_row("best step", fmt::format("{}, by {}", best.step, markdown_text(best.figure)));
  }
  return rows;
}

std::string figure_text(const Figure& figure) {
  return figure.percent ? fmt::format("{:.2f} %", 100 * figure.value) : fmt::format("{:.5g}", figure.value);
}

// Adds what earlier processes of a resumed run have measured, in the steps before it.
Measurements with_earlier(Measurements measured, const RunContext& run, const std::filesystem::path& folder,
                          const std::optional<Best>& best) {
  if (!run.prepared.resume_point) return measured;
  Measurements before;
  const auto add = [&](const PassEvent& pass) {
    const std::uint64_t of = pass.best_step != 0 ? pass.best_step : pass.step;
    if (pass.best_step == 0) before.last[pass.graph] = {pass.step, pass.figures};
    if (best && of == best->step) before.best[pass.graph] = {of, pass.figures};
  };
  send_earlier_events(folder / "metrics.jsonl", {run.prepared.resume_point->checkpoint.state.step, run.steps().first},
                      {.pass = add});
  measured.last.merge(before.last);
  measured.best.merge(before.best);
  return measured;
}

// A process that has not measured the best step has only its value; a later pass shows whether that is a share.
Figure best_figure_of(const Ended& result) {
  Figure best{result.best_found->figure, result.best_found->value};
  for (const auto& [graph, pass] : result.measured.last) {
    for (const Figure& figure : pass.figures) {
      if (fmt::format("{}.{}", graph, figure.name) == best.name) best.percent = figure.percent;
    }
  }
  return best;
}

std::string best_file_of(const Pipeline& pipeline) { return pipeline.best ? kBestWeights : "the best checkpoint"; }

// Nothing where --predict cannot prepare images as the run did.
std::string prediction(const RunContext& run, const CardPlace& place) {
  const std::optional<InferenceRecipe>& recipe = run.prepared.recipe;
  if (!recipe || !recipe->unrepeatable.empty() || place.folder.empty()) return {};
  const std::string command =
      shell_text({"pipeline-run", "--predict", "FOLDER", "--weights", place.folder.string(), "--out", "found"});
  return fmt::format(
      "\n## Prediction\n\nFOLDER holds images. The best weights are used if the run has them, or else the last.\n\n{}",
      code_block("sh", command));
}

// With everything that the results depend on, and without options of its output.
std::string command_of(const RunContext& run, const CardPlace& place) {
  const RunOptions& options = run.options();
  const std::string& command = options.commands.explain;
  const std::optional<std::string>& resumed = options.resume.run;
  const bool was_asked = resumed && !options.resume.rate_factor;  // else the run itself has rolled back
  if (command.empty() || !was_asked) return command;
  return fmt::format("{} --resume {}", command, shell_word((resumed->empty() ? place.folder : without_link(*resumed)).string()));
}

std::string changes(const RunContext& run) {
  const std::optional<ResumePoint>& from = run.prepared.resume_point;
  if (!from) return {};
  Diagnostics ignored;  // it was read before
  const auto then = parse_toml(from->checkpoint.pipeline, from->path.string(), ignored);
  if (!then) return {};
  const std::vector<Difference> found = differences(*then, run.prepared.resolved(), keys_that_may_change(run.pipeline()));
  return changes_table(found, run.steps().first);
}

std::string version_rows(const RunContext& run) {
  std::string rows;
  for (const auto& [name, version] : run.prepared.record().versions) {
    rows += markdown_row(markdown_text(name), markdown_text(version));
  }
  return rows;
}

}  // namespace

std::string markdown_text(std::string_view text) {
  static constexpr std::string_view kMeaning = "\\`*_{}[]<>()#+-.!|~&:@$^=";
  std::string out;
  for (const char c : line_text(text)) {
    if (kMeaning.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string code_block(std::string_view language, std::string_view text) {
  std::size_t longest = 0, run = 0;
  for (const char c : text) longest = std::max(longest, run = c == '`' ? run + 1 : 0);
  const std::string fence(std::max<std::size_t>(3, longest + 1), '`');
  return fmt::format("{}{}\n{}{}{}\n", fence, language, text, text.ends_with('\n') ? "" : "\n", fence);
}

std::string utc_text(std::time_t time) { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time)); }

std::string steps_text(const Ended& result, std::uint64_t steps_per_epoch) {
  const std::uint64_t done = result.step - std::min(result.first_step, result.step);
  const std::string range =
      result.first_step > 0 && done > 0 ? fmt::format(", from step {} to {}", result.first_step + 1, result.step) : "";
  const double epochs = static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(steps_per_epoch, 1));
  return fmt::format("{}{}: {:.6g} {}", done, range, epochs, epochs == 1 ? "epoch" : "epochs");
}

std::string figures_table(const Ended& result, const std::string& best_file) {
  const std::uint64_t best = result.best_found ? result.best_found->step : 0;
  const auto of = [&](std::uint64_t step) {
    const std::string last = step == result.step ? fmt::format(", the last: {}", kLastWeights) : "";
    return fmt::format("of step {}{}{}", step, last, best > 0 && step == best ? fmt::format(", the best: {}", best_file) : "");
  };
  std::string rows;
  const auto add = [&](const std::string& name, const std::string& value, std::uint64_t step) {
    rows += fmt::format("| {} | {} | {} |\n", markdown_text(name), value, markdown_text(of(step)));
  };
  bool has_best = false;
  const auto add_all = [&](const std::string& graph, const Measured& pass) {
    for (const Figure& figure : pass.figures) {
      const std::string name = fmt::format("{}.{}", graph, figure.name);
      if (figure.is_detail && !(best > 0 && name == result.best_found->figure)) continue;
      has_best = has_best || (best > 0 && pass.step == best && name == result.best_found->figure);
      add(name, figure_text(figure), pass.step);
    }
  };
  for (const auto& [graph, pass] : result.measured.last) add_all(graph, pass);
  for (const auto& [graph, pass] : result.measured.best) {
    const auto last = result.measured.last.find(graph);
    const bool is_listed = last != result.measured.last.end() && last->second.step == pass.step;
    if (pass.step == best && !is_listed) add_all(graph, pass);
  }
  if (best > 0 && !has_best) add(result.best_found->figure, figure_text(best_figure_of(result)), best);
  return rows.empty() ? rows : "| figure | value | weights |\n|---|---:|---|\n" + rows;
}

std::string changes_table(const std::vector<Difference>& changes, std::uint64_t step) {
  std::string rows;
  const auto value_text = [](const std::string& value) { return value.empty() ? std::string("not set") : markdown_text(value); };
  for (const Difference& each : changes) {
    rows += fmt::format("| {} | {} | {} |\n", markdown_text(each.key), value_text(each.then), value_text(each.now));
  }
  if (rows.empty()) return rows;
  return fmt::format("| key | until step {} | since then |\n|---|---|---|\n{}", step, rows);
}

std::string model_card(const RunContext& run, Ended result, const CardPlace& asked) {
  const CardPlace place{without_link(asked.folder), asked.began};
  result.measured = with_earlier(std::move(result.measured), run, place.folder, result.best_found);
  const Pipeline& pipeline = run.pipeline();
  std::string text = fmt::format("# {}\n\nWeights that Millrace has trained, and how.\n\n{}", markdown_text(pipeline.run.name),
                                 markdown_table(run_rows(run, result, place)));
  if (const std::string figures = figures_table(result, best_file_of(pipeline)); !figures.empty())
    text += "\n## Figures\n\n" + figures;
  text += prediction(run, place);
  if (pipeline.network) text += "\n## Network\n\n" + markdown_table(network_rows(run.prepared));
  text += "\n## Data\n";
  for (const auto& build : run.builds()) {
    text += fmt::format("\n### {}\n\n{}", markdown_text(build->plan().name), markdown_table(data_rows(build->data())));
    if (build.get() == &run.main()) text += class_rows(build->data());
  }
  text += "\n## Versions\n\n" + markdown_table(version_rows(run));
  const std::string command = without_secrets(command_of(run, place));
  if (!command.empty()) text += "\n## Command\n\n" + code_block("sh", command);
  if (const std::string changed = changes(run); !changed.empty())
    text += "\n## Changes\n\nThe run was resumed with other values than it had before.\n\n" + changed;
  text += "\n## Recipe\n\nThe pipeline file, with all that it extends and refers to.\n\n";
  return text + code_block("toml", to_toml(run.prepared.resolved()));
}

}  // namespace millrace
