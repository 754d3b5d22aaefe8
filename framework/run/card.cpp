#include "run/card.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/versions.h"
#include "millrace/backend/network.h"
#include "millrace/util/text.h"

namespace millrace {
namespace {

constexpr std::size_t kMostClasses = 100;

std::string markdown_row(std::string_view name, std::string_view value) { return fmt::format("| {} | {} |\n", name, value); }
std::string markdown_table(const std::string& rows) { return rows.empty() ? rows : "| | |\n|---|---|\n" + rows; }

std::string network_rows(const Network& network) {
  std::uint64_t parameters = 0, fixed = 0;
  for (const Parameter& parameter : network.parameters) {
    if (parameter.statistic) continue;
    parameters += static_cast<std::uint64_t>(parameter.shape.elements());
    if (!parameter.trainable) fixed += static_cast<std::uint64_t>(parameter.shape.elements());
  }
  return markdown_row("network", markdown_text(network.name)) + markdown_row("layers", std::to_string(network.layers.size())) +
         markdown_row("parameters", fmt::format("{}{}", parameters, fixed > 0 ? fmt::format(", {} of them fixed", fixed) : "")) +
         markdown_row("input", markdown_text(to_string(network.input))) +
         markdown_row("output", markdown_text(to_string(network.output())));
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
  for (std::size_t i = 0; i < std::min(classes.size(), kMostClasses); ++i) {
    text += markdown_row(markdown_text(classes[i]), i < counts.size() ? std::to_string(counts[i]) : "");
  }
  if (classes.size() > kMostClasses) text += markdown_row("...", fmt::format("{} more", classes.size() - kMostClasses));
  return text.empty() ? text : "\n| class | listed samples |\n|---|---:|\n" + text;
}

std::string figure_rows(const RunResult& result) {
  std::string rows = markdown_row("steps", fmt::format("{}, which are {:g} epochs{}", result.step, result.epoch,
                                                       result.stopped ? "; the run was stopped before its end" : ""));
  if (!result.last_validation.measured_nothing() && result.last_validation.loss) {
    for (const Figure& figure : result.last_validation.figures()) {
      rows += markdown_row(markdown_text("validation " + figure.name),
                           figure.percent ? fmt::format("{:.2f} %", 100 * figure.value) : fmt::format("{:.5g}", figure.value));
    }
  }
  if (!result.best.empty()) rows += markdown_row("best weights", markdown_text(result.best));
  return rows;
}

std::string version_rows(const RunContext& run) {
  std::string rows;
  for (const auto& [name, version] : versions_of(run.prepared.replicas.devices().devices)) {
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

std::string model_card(const RunContext& run, const RunResult& result) {
  const Pipeline& pipeline = run.pipeline();
  std::string text = fmt::format("# {}\n\nWeights that Millrace has trained, and how.\n", markdown_text(pipeline.run.name));
  text += "\n## Figures\n\n" + markdown_table(figure_rows(result));
  if (pipeline.network) text += "\n## Network\n\n" + markdown_table(network_rows(*pipeline.network));
  text += "\n## Data\n";
  for (const auto& build : run.builds()) {
    text += fmt::format("\n### {}\n\n{}", markdown_text(build->plan().name), markdown_table(data_rows(build->data())));
    if (build.get() == &run.main()) text += class_rows(build->data());
  }
  text += "\n## Versions\n\n" + markdown_table(version_rows(run));
  const std::string& command = run.options().commands.resume;
  if (!command.empty()) text += "\n## Command\n\n" + code_block("sh", command);
  text += "\n## Recipe\n\nThe pipeline file, with all that it extends and refers to.\n\n";
  return text + code_block("toml", to_toml(run.prepared.resolved()));
}

}  // namespace millrace
