#include "millrace/util/class_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "millrace/util/text.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxNamed = 3;

bool is_decimal(char c) { return c >= '0' && c <= '9'; }

// "'0' is class '1', '1' is class '2'"
std::string readings(const std::vector<std::string>& labels, const std::vector<std::int32_t>& read,
                     const std::vector<std::string>& classes) {
  std::string text;
  for (std::size_t i = 0; i < std::min(labels.size(), kMaxNamed); ++i) {
    text += fmt::format("{}'{}' is class '{}'", i == 0 ? "" : ", ", line_text(labels[i]),
                        line_text(classes[static_cast<std::size_t>(read[i])]));
  }
  return labels.size() > kMaxNamed ? text + ", ..." : text;
}

// Whether a class's name is a number other than its position.
bool may_be_confused(const std::vector<std::string>& classes) {
  for (std::size_t at = 0; at < classes.size(); ++at) {
    const auto number = position_of_label(classes[at]);
    if (number && static_cast<std::size_t>(*number) != at) return true;
  }
  return false;
}

}  // namespace

std::optional<std::int32_t> position_of_label(std::string_view label) {
  constexpr std::int32_t kMax = 999'999'999;
  std::int32_t number = 0;
  if (label.empty() || !std::ranges::all_of(label, is_decimal)) return std::nullopt;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), number);
  if (error != std::errc() || number > kMax) return std::nullopt;
  return number;
}

LabelMeaning meaning_of_labels(const std::vector<std::string>& labels, const std::vector<std::string>& classes, LabelsAre which) {
  std::map<std::string_view, std::int32_t> numbers;
  for (const std::string& name : classes) numbers.emplace(name, static_cast<std::int32_t>(numbers.size()));
  std::vector<std::int32_t> names, positions;  // by label; -1: none
  for (const std::string& label : labels) {
    const auto name = numbers.find(label);
    const auto position = position_of_label(label);
    names.push_back(name == numbers.end() ? -1 : name->second);
    positions.push_back(which != LabelsAre::names && position && static_cast<std::size_t>(*position) < classes.size() ? *position
                                                                                                                      : -1);
  }
  const auto fit = [](const std::vector<std::int32_t>& read) { return std::ranges::find(read, -1) == read.end(); };
  const bool are_names = fit(names), are_positions = fit(positions), are_both = are_names && are_positions;
  LabelMeaning meaning;
  if (!are_names && !are_positions) {
    std::size_t at = 0;
    while (at < labels.size() && (names[at] >= 0 || positions[at] >= 0)) ++at;
    if (at == labels.size()) at = static_cast<std::size_t>(std::ranges::find(names, -1) - names.begin());
    meaning.unknown = at;
    const auto name = std::ranges::find_if(names, [](std::int32_t number) { return number >= 0; });
    if (positions[at] >= 0 && name != names.end()) {
      meaning.advice = fmt::format("; either all labels are names or all are positions, and '{}' is a name",
                                   line_text(labels[static_cast<std::size_t>(name - names.begin())]));
    }
    return meaning;
  }
  const bool by_position = are_both ? which == LabelsAre::positions_first : are_positions;
  meaning.classes = by_position ? positions : names;
  const bool may_be_both = are_both && names != positions && labels.size() < classes.size();
  if (may_be_both || (by_position && names != positions && may_be_confused(classes))) {
    meaning.doubt = fmt::format("labels are read as {} of classes, not as {}: {}; if that is wrong, write the names as labels",
                                by_position ? "positions" : "names", by_position ? "names" : "positions",
                                readings(labels, meaning.classes, classes));
  }
  return meaning;
}

}  // namespace millrace
