#include "stages/doubtful_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "millrace/util/class_labels.h"
#include "millrace/util/text.h"

namespace millrace {
namespace {

using Names = std::vector<std::string>;
using namespace std::string_view_literals;

constexpr const char* kMeant = "; if both are meant, name all classes in `classes`";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
bool is_number(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

// Words in lower case. A word begins after a non-letter, and at a capital after a small letter.
Names words_of(std::string_view name) {
  Names words;
  for (std::size_t at = 0; at < name.size();) {
    std::size_t end = at;
    while (end < name.size() && is_letter(name[end]) && !(end > at && is_capital(name[end]) && !is_capital(name[end - 1]))) ++end;
    if (end > at) words.push_back(lower_case(name.substr(at, end - at)));
    at = std::max(end, at + 1);
  }
  return words;
}

// "03", "3.0", "3,0" and " 3" are 3; true is 1. Empty if it is not a number.
std::optional<double> number_of(std::string_view name) {
  std::string text = lower_case(trimmed(name));
  if (text == "true" || text == "false") return text == "true" ? 1 : 0;
  std::ranges::replace(text, ',', '.');
  if (text.find_first_not_of("+-0123456789.") != text.npos) return std::nullopt;
  double number = 0;
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// A name without differences of spelling: case, accents and blanks. macOS writes an accent after its letter (U+0300 to U+036F),
// others use one letter for both (here those of Latin-1), and spreadsheets write non-breaking blanks (U+00A0).
std::string folded(std::string_view name) {
  // Indexed by the second byte, 80 to BF, after C3: the letter without its accent, or '?'.
  constexpr std::string_view kBare = "aaaaaa?ceeeeiiii?nooooo??uuuuy??aaaaaa?ceeeeiiii?nooooo??uuuuy?y";
  std::string bare;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    const auto next = static_cast<unsigned char>(i + 1 < name.size() ? name[i + 1] : 0);
    const bool is_pair = next >= 0x80 && next < 0xC0;
    const bool is_mark = is_pair && (byte == 0xCC || (byte == 0xCD && next < 0xB0));
    const bool is_accented = is_pair && byte == 0xC3 && kBare[next - 0x80U] != '?';
    const bool is_blank = byte == ' ' || byte == '\t' || (byte == 0xC2 && next == 0xA0);
    if (is_accented) bare += kBare[next - 0x80U];
    if (is_accented || is_mark || (is_blank && byte == 0xC2)) ++i;
    if (is_accented || is_mark || is_blank) continue;
    bare += byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : static_cast<char>(byte);
  }
  return bare;
}

// Names that are equal when folded: usually one class with two folders. "" if there are none.
std::string classes_alike(const std::vector<std::string>& classes) {
  std::map<std::string, const std::string*> known;
  std::string first;
  std::size_t alike = 0;
  for (const std::string& name : classes) {
    const auto [same, is_new] = known.emplace(folded(name), &name);
    if (is_new) continue;
    if (alike++ == 0) first = fmt::format("'{}' and '{}'", line_text(*same->second), line_text(name));
  }
  if (alike == 0) return {};
  return fmt::format(
      "the classes {} differ in upper and lower case, accents or blanks alone, and are two classes: put their images together if "
      "they are one{}",
      first, alike > 1 ? fmt::format("; so do {} more", alike - 1) : "");
}

// "" if no class is the same number in two spellings.
std::string number_in_two_ways(const Names& classes) {
  std::map<double, std::string_view> numbers;
  for (const std::string& name : classes) {
    const auto number = number_of(name);
    if (!number) continue;
    const auto [before, is_new] = numbers.emplace(*number, name);
    if (!is_new)
      return fmt::format("'{}' and '{}' are two classes, and one number: write all alike{}", line_text(before->second),
                         line_text(name), kMeant);
  }
  return {};
}

// The parts of "clear primary" or "['clear', 'primary']", unchanged. One part if the separator does not occur.
Names parts_of_name(std::string_view name, char separator) {
  constexpr std::string_view kAround = " \t[](){}'\"";
  Names parts;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find(separator, at), name.size());
    std::string_view part = name.substr(at, end - at);
    part.remove_prefix(std::min(part.find_first_not_of(kAround), part.size()));
    part = part.substr(0, part.find_last_not_of(kAround) + 1);  // npos + 1 is 0
    if (!part.empty()) parts.emplace_back(part);
    at = end + 1;
  }
  const bool is_date_or_number = (separator == '-' || separator == '/') && std::ranges::all_of(parts, is_number);
  return is_date_or_number ? Names{std::string(name)} : parts;
}

// A class that combines others: its parts are also a class in another order, or at least two ways without one part, or (for at
// least half of such names) each by itself. "" if there is none.
std::string made_of_others(const Names& classes, char separator) {
  std::map<std::set<std::string>, Names> known;
  for (const std::string& name : classes) {
    Names parts = parts_of_name(name, separator);
    std::set<std::string> as_set(parts.begin(), parts.end());
    const auto [before, is_new] = known.emplace(std::move(as_set), parts);
    if (!is_new && parts.size() > 1 && before->second != parts && before->second.size() == parts.size()) return name;
  }
  std::size_t many = 0, made = 0;
  std::string first;
  for (const auto& [parts, ordered] : known) {
    if (parts.size() < 2) continue;
    ++many;
    bool all_alone = true;
    std::size_t without_one = 0;
    for (const std::string& part : parts) {
      std::set<std::string> others = parts;
      others.erase(part);
      without_one += parts.size() > 2 && known.contains(others) ? 1 : 0;
      all_alone = all_alone && known.contains({part});
    }
    std::string text = fmt::format("{}", fmt::join(ordered, std::string(1, separator)));
    if (without_one > 1) return text;
    if (all_alone && made++ == 0) first = std::move(text);
  }
  return 2 * made >= many ? first : "";
}

std::string several_labels(const Names& classes) {
  constexpr std::size_t kMost = 20'000;  // larger lists are not classes, and take seconds
  if (classes.size() > kMost) return {};
  for (const char separator : "|;,+&/ _-"sv) {
    const std::string name = made_of_others(classes, separator);
    if (name.empty()) continue;
    return fmt::format(
        "the parts of class '{}' are labels too, in other orders or numbers: they are probably several labels an image, which "
        "extends = \"labels\" learns from a column of 0 and 1 for each label, and here each combination is a class of its own; "
        "if that is meant, name all classes in `classes`",
        line_text(name));
  }
  return {};
}

// Some labels are words, and some are their positions. Playing cards start at 2, and single characters are not words.
std::string names_beside_positions(const Names& classes) {
  std::size_t words = 0, positions = 0;
  std::int32_t largest = 0;
  std::string word;
  bool has_zero = false;
  for (const std::string& name : classes) {
    if (const auto position = position_of_label(name)) {
      ++positions;
      largest = std::max(largest, *position);
      has_zero = has_zero || *position == 0;
    } else if (name.size() > 1 && std::ranges::any_of(name, is_letter)) {
      ++words;
      word = name;
    }
  }
  const bool may_be = has_zero && positions + words == classes.size() && static_cast<std::size_t>(largest) < words;
  if (!may_be) return {};
  return fmt::format(
      "some classes are names, such as '{}', and some are numbers from 0 to {}: if these are positions of the names, write all "
      "as "
      "names{}",
      line_text(word), largest, kMeant);
}

// "2-Jan" or "Jan-02".
bool is_date_of_spreadsheets(std::string_view name) {
  constexpr std::array kMonths{"jan"sv, "feb"sv, "mar"sv, "apr"sv, "may"sv, "jun"sv,
                               "jul"sv, "aug"sv, "sep"sv, "oct"sv, "nov"sv, "dec"sv};
  const std::size_t dash = name.find('-');
  if (dash == name.npos) return false;
  const std::string_view a = name.substr(0, dash), b = name.substr(dash + 1);
  const auto is_pair = [&](std::string_view number, std::string_view month) {
    return is_number(number) && number.size() <= 2 && std::ranges::find(kMonths, lower_case(month)) != kMonths.end();
  };
  return is_pair(a, b) || is_pair(b, a);
}

// "2026-11-28", "28/11/2026".
bool is_day(std::string_view name) {
  for (const char separator : "-/."sv) {
    const std::size_t first = name.find(separator), second = name.find(separator, first + 1);
    if (first == name.npos || second == name.npos) continue;
    const std::array parts{name.substr(0, first), name.substr(first + 1, second - first - 1), name.substr(second + 1)};
    if (std::ranges::all_of(parts, is_number) && (parts[0].size() == 4 || parts[2].size() == 4)) return true;
  }
  return false;
}

std::string dates(const Names& classes) {
  const auto date = std::ranges::find_if(classes, is_date_of_spreadsheets);
  if (date != classes.end()) {
    return fmt::format(
        "class '{}' is a date as spreadsheets make it of other texts, such as 1-2: look at the labels, and format their column "
        "as "
        "text; if it is meant, name all classes in `classes`",
        line_text(*date));
  }
  if (classes.size() > 2 && std::ranges::all_of(classes, is_day)) {
    return fmt::format(
        "all {} classes are dates, such as '{}': is the column of labels the right one? If they are meant, name them in "
        "`classes`",
        classes.size(), line_text(classes.front()));
  }
  return {};
}

// The first name with one of these words.
std::optional<std::string> name_with(const Names& names, std::span<const std::string_view> words) {
  const auto found = std::ranges::find_if(names, [&](const std::string& name) {
    const Names found_words = words_of(name);
    return std::ranges::find_first_of(found_words, words) != found_words.end();
  });
  return found == names.end() ? std::nullopt : std::optional(*found);
}

// A class that mirroring turns into another one. Trousers ("bottom") and a "top" are not mirror images.
std::optional<std::string> mirrored_class(const Names& classes, bool turns_over) {
  constexpr std::array kSides{"left"sv, "right"sv};
  constexpr std::array kHeights{std::array{"up"sv, "down"sv}, std::array{"top"sv, "bottom"sv}, std::array{"upper"sv, "lower"sv}};
  if (!turns_over) return name_with(classes, kSides);
  for (const auto& pair : kHeights) {
    const auto high = name_with(classes, std::span(pair).first(1));
    if (high && name_with(classes, std::span(pair).last(1))) return high;
  }
  return std::nullopt;
}

// A column of numbers that mirroring changes.
std::optional<std::string> mirrored_column(const Names& columns, bool turns_over) {
  constexpr std::array kAcross{"left"sv, "right"sv, "x"sv, "xmin"sv, "xmax"sv, "cx"sv, "angle"sv, "yaw"sv, "steering"sv};
  constexpr std::array kAlong{"top"sv, "bottom"sv, "y"sv, "ymin"sv, "ymax"sv, "cy"sv, "angle"sv, "pitch"sv};
  return turns_over ? name_with(columns, kAlong) : name_with(columns, kAcross);
}

Names texts_of(const Value* value) {
  Names texts;
  if (value == nullptr || value->kind() != Value::Kind::array) return texts;
  for (const Value& each : value->array()) {
    if (each.kind() == Value::Kind::text) texts.push_back(each.text());
  }
  return texts;
}

// A mirroring key of augment or forward.
struct Mirror {
  const StagePlan* stage;
  std::string_view key;
  std::string_view off;     // its value without mirroring
  bool turns_over = false;  // swaps top and bottom
};

std::vector<Mirror> mirrors_of(const GraphPlan& plan) {
  std::vector<Mirror> mirrors;
  for (const StagePlan& stage : plan.stages) {
    for (const char* key : {"flip_x", "flip_y"}) {
      const Value* const chance = stage.table.find(key);
      if (chance != nullptr && chance->is_number() && chance->number() > 0)
        mirrors.push_back({&stage, key, "0", key == "flip_y"sv});
    }
    const Value* const alternating = stage.table.find("alternating_flip");
    if (alternating != nullptr && alternating->kind() == Value::Kind::boolean && alternating->boolean())
      mirrors.push_back({&stage, "alternating_flip", "false"});
    const Value* const views = stage.table.find("test_time");
    if (views != nullptr && views->kind() == Value::Kind::text && views->text().starts_with("flip"))
      mirrors.push_back({&stage, "test_time", "none"});
  }
  return mirrors;
}

}  // namespace

std::vector<std::string> doubts_of_names(const Names& classes) {
  std::vector<std::string> doubts;
  for (std::string text :
       {number_in_two_ways(classes), several_labels(classes), names_beside_positions(classes), dates(classes)}) {
    if (!text.empty()) doubts.push_back(std::move(text));
  }
  return doubts;
}

std::vector<std::string> warnings_of_names(const GraphBuild& build) {
  std::vector<std::string> said;
  if (build.data().source->sampling().only.empty() && build.data().source_plan->table.find("classes") == nullptr)
    said = doubts_of_names(build.data().classes);
  if (std::string alike = classes_alike(build.data().classes); !alike.empty()) said.push_back(std::move(alike));
  for (std::string& text : said) text = fmt::format("{}: {}", place_of_source(build), text);
  return said;
}

std::string warning_of_mirrors(const GraphBuild& build) {
  const StagePlan* const source = build.data().source_plan;
  const Names columns = texts_of(source == nullptr ? nullptr : source->table.find("numbers"));
  for (const Mirror& mirror : mirrors_of(build.plan())) {
    const auto of_class = mirrored_class(build.data().classes, mirror.turns_over);
    const auto of_column = mirrored_column(columns, mirror.turns_over);
    if (!of_class && !of_column) continue;
    return fmt::format(
        "{}: {} mirrors {}, and {} '{}' says where something is, which is not so in the mirror image; --set {}.{}.{}={} turns it "
        "off",
        place_of(*mirror.stage, build.plan()), mirror.key, mirror.turns_over ? "top and bottom" : "left and right",
        of_class ? "class" : "column", line_text(of_class ? *of_class : *of_column), build.plan().name, mirror.stage->name,
        mirror.key, mirror.off);
  }
  return {};
}

}  // namespace millrace
