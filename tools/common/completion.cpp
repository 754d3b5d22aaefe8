#include "common/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "common/settable_keys.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "toml/shipped.h"

namespace millrace {
namespace {

constexpr const char* kFiles = ":files\n";

std::string line(const std::string& word, const std::string& text) { return fmt::format("{}\t{}\n", word, text); }

const OptionText* find(const std::vector<OptionText>& options, std::string_view name) {
  const auto found = std::ranges::find(options, name, &OptionText::name);
  return found == options.end() ? nullptr : &*found;
}

// The pipeline on the command line: the first word that is a file or the name of a base file.
std::optional<std::string> pipeline_among(const std::vector<OptionText>& options, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (const OptionText* option = find(options, words[i])) {
      if (!option->value_name.empty()) ++i;
      continue;
    }
    std::error_code ignored;
    if (words[i].ends_with(".toml") && std::filesystem::is_regular_file(words[i], ignored)) return words[i];
    if (is_shipped_name(words[i]) && find_shipped(kBases, words[i], ".")) return words[i];
  }
  return std::nullopt;
}

// "train.au" -> its keys, each with "="; "train.augment.border=" -> its values. `before`: the preceding part of the word,
// "--set=".
std::string keys(const std::optional<std::string>& file, const std::string& before, std::string_view typed) {
  if (!file) return "";
  Registry registry;
  load_all_plugins(registry);
  const std::size_t equals = typed.find('=');
  std::string text;
  for (const SettableKey& key : settable_keys(*file, registry)) {
    if (equals == std::string_view::npos) {
      const std::string now = key.value.empty() ? "" : fmt::format(" ({})", key.value.substr(0, key.value.find('\n')));
      if (key.name.starts_with(typed)) text += line(before + key.name + "=", key.text + now);
    } else if (key.name == typed.substr(0, equals)) {
      for (const std::string& choice : key.choices) {
        if (choice.starts_with(typed.substr(equals + 1))) text += line(before + key.name + "=" + choice, "");
      }
    }
  }
  return text;
}

bool is_file(std::string_view value_name) {
  constexpr std::array<std::string_view, 7> kNames = {"FILE", "FOLDER", "RUN", "IMAGES", "DIR", "PLUGIN", "WHAT"};
  return std::ranges::any_of(kNames, [&](std::string_view name) { return value_name.starts_with(name); });
}

}  // namespace

std::string completions(const std::vector<OptionText>& options, const KnownNames& names, const std::vector<std::string>& words) {
  const std::string typed = words.empty() ? "" : words.back();
  const OptionText* option = words.size() > 1 ? find(options, words[words.size() - 2]) : nullptr;
  const std::size_t equals = typed.find('=');
  std::string before, value = typed;  // parts of --set=KEY
  if (typed.starts_with("--") && equals != std::string::npos) {
    option = find(options, typed.substr(0, equals));
    before = typed.substr(0, equals + 1);
    value = typed.substr(equals + 1);
  }
  if (option != nullptr && option->value_name == "KEY=VALUE") return keys(pipeline_among(options, words), before, value);
  if (option != nullptr && !option->value_name.empty()) return is_file(option->value_name) ? kFiles : "";
  std::string lines;
  if (typed.starts_with('-')) {
    for (const OptionText& each : options) {
      if (each.name.starts_with(typed)) lines += line(each.name, each.text);
    }
    return lines;
  }
  const std::vector<std::string> known = names();
  for (const std::string& name : std::set(known.begin(), known.end())) {  // a plugin may have the same name as its stage
    if (name.starts_with(typed)) lines += line(name, "");
  }
  return lines + kFiles;
}

}  // namespace millrace
