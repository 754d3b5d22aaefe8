// Class names which suggest that labels do not mean what training assumes. Independent of the source.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "millrace/util/class_labels.h"
#include "millrace/util/text.h"
#include "run/doctor/doctor.h"

namespace millrace {
namespace {

using Names = std::vector<std::string>;
using namespace std::string_view_literals;

constexpr const char* kMeant = "; if both are meant, name all classes in `classes`";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

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
    const auto byte = static_cast<unsigned char>(name[i]),
               next = static_cast<unsigned char>(i + 1 < name.size() ? name[i + 1] : 0);
    const bool is_pair = next >= 0x80 && next < 0xC0;
    const bool is_accented = is_pair && byte == 0xC3 && kBare[next - 0x80U] != '?';
    const bool is_mark = is_pair && (byte == 0xCC || (byte == 0xCD && next < 0xB0)), is_blank = byte == 0xC2 && next == 0xA0;
    if (is_accented) bare += kBare[next - 0x80U];
    if (is_accented || is_mark || is_blank)
      ++i;
    else if (byte != ' ' && byte != '\t')
      bare += name[i];
  }
  return lower_case(bare);
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
      "the classes {} differ only in upper and lower case, accents or blanks, and are two classes: put their images together if "
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
      return fmt::format("'{}' and '{}' are two classes, but one number: write all alike{}", line_text(before->second),
                         line_text(name), kMeant);
  }
  return {};
}

Names parts_between(std::string_view name, char separator) {
  Names parts;
  for (std::size_t at = 0, end = 0; at <= name.size(); at = end + 1) {
    end = std::min(name.find(separator, at), name.size());
    parts.emplace_back(name.substr(at, end - at));
  }
  return parts;
}

// The parts of "clear primary" or "['clear', 'primary']", as they stand. One alone where nothing is parted.
Names parts_of_name(std::string_view name, char separator) {
  constexpr std::string_view kAround = " \t[](){}'\"";
  Names parts;
  for (const std::string& part : parts_between(name, separator)) {
    const std::size_t first = part.find_first_not_of(kAround);
    if (first != part.npos) parts.push_back(part.substr(first, part.find_last_not_of(kAround) + 1 - first));
  }
  const bool is_date_or_number = (separator == '-' || separator == '/') && std::ranges::all_of(parts, is_number);
  return is_date_or_number ? Names{std::string(name)} : parts;
}

// A class that combines others: its parts are also a class in another order, or at least two ways without one part, or (for at
// least half of such names) each by itself. "" if there is none.
std::string made_of_others(const Names& classes, char separator) {
  constexpr std::size_t kMaxNameParts = 64;  // a longer name is a sentence, and its parts are no labels
  std::map<std::set<std::string>, Names> known;
  for (const std::string& name : classes) {
    Names parts = parts_of_name(name, separator);
    if (parts.size() > kMaxNameParts) continue;
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
  constexpr std::size_t kMax = 20'000;  // larger lists are not classes, and take seconds
  if (classes.size() > kMax) return {};
  for (const char separator : "|;,+&/ _-"sv) {
    const std::string name = made_of_others(classes, separator);
    if (name.empty()) continue;
    return fmt::format(
        "the parts of class '{}' are labels too, in other orders or numbers: they are probably several labels per image, which "
        "extends = \"labels\" learns from a column of 0 and 1 for each label, but here each combination is a class of its own; "
        "if that is intended, name all classes in `classes`",
        line_text(name));
  }
  return {};
}

// Some labels are words, and some are their positions. Playing cards start at 2, and single characters are not words.
std::string names_and_positions(const Names& classes) {
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
  if (!has_zero || positions + words != classes.size() || static_cast<std::size_t>(largest) >= words) return {};
  return fmt::format(
      "some classes are names, such as '{}', and some are numbers from 0 to {}: if these are positions of the names, write all "
      "as names{}",
      line_text(word), largest, kMeant);
}

// "2-Jan" or "Jan-02".
bool is_date_of_spreadsheets(std::string_view name) {
  constexpr std::string_view kMonths = "jan feb mar apr may jun jul aug sep oct nov dec";
  const Names parts = parts_between(name, '-');
  if (parts.size() != 2) return false;
  const auto is_pair = [&](const std::string& number, const std::string& month) {
    return is_number(number) && number.size() <= 2 && month.size() == 3 && kMonths.find(lower_case(month)) % 4 == 0;
  };
  return is_pair(parts[0], parts[1]) || is_pair(parts[1], parts[0]);
}

// "2026-11-28", "28/11/2026".
bool is_day(std::string_view name) {
  return std::ranges::any_of("-/."sv, [&](char separator) {
    const Names parts = parts_between(name, separator);
    return parts.size() == 3 && std::ranges::all_of(parts, is_number) && (parts[0].size() == 4 || parts[2].size() == 4);
  });
}

std::string dates(const Names& classes) {
  if (const auto date = std::ranges::find_if(classes, is_date_of_spreadsheets); date != classes.end())
    return fmt::format(
        "class '{}' is a date as spreadsheets make it of other texts, such as 1-2: check the labels, and format their column as "
        "text; if it is meant, name all classes in `classes`",
        line_text(*date));
  if (classes.size() <= 2 || !std::ranges::all_of(classes, is_day)) return {};
  return fmt::format(
      "all {} classes are dates, such as '{}': is the column of labels the right one? If they are meant, name them in `classes`",
      classes.size(), line_text(classes.front()));
}

// The first name with one of these words.
std::optional<std::string> name_with(const Names& names, std::initializer_list<std::string_view> wanted) {
  for (const std::string& name : names) {
    const Names words = words_of(name);
    if (std::ranges::find_first_of(words, wanted) != words.end()) return name;
  }
  return std::nullopt;
}

// A class that mirroring turns into another one. Trousers ("bottom") and a "top" are not mirror images.
std::optional<std::string> mirrored_class(const Names& classes, bool turns_over) {
  if (!turns_over) return name_with(classes, {"left", "right"});
  for (const auto& [high, low] : {std::pair("up", "down"), std::pair("top", "bottom"), std::pair("upper", "lower")}) {
    if (auto found = name_with(classes, {high}); found && name_with(classes, {low})) return found;
  }
  return std::nullopt;
}

// A column of numbers that mirroring changes.
std::optional<std::string> mirrored_column(const Names& columns, bool turns_over) {
  return turns_over ? name_with(columns, {"top", "bottom", "y", "ymin", "ymax", "cy", "angle", "pitch"})
                    : name_with(columns, {"left", "right", "x", "xmin", "xmax", "cx", "angle", "yaw", "steering"});
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
  const char *key, *off;
  bool turns_over;  // top and bottom
};
constexpr std::array kMirrors{Mirror{"flip_x", "0", false}, Mirror{"flip_y", "0", true},
                              Mirror{"alternating_flip", "false", false}, Mirror{"test_time", "none", false}};

bool is_on(const Value* value) {
  if (value == nullptr) return false;
  if (value->is_number()) return value->number() > 0;
  if (value->kind() == Value::Kind::boolean) return value->boolean();
  return value->kind() == Value::Kind::text && value->text().starts_with("flip");
}

// Message for the first mirroring key that contradicts a name; else "".
std::string mirrored_direction(const GraphBuild& build) {
  const StagePlan* const source = build.data().source_plan;
  const Names columns = texts_of(source == nullptr ? nullptr : source->table.find("numbers"));
  for (const StagePlan& stage : build.plan().stages) {
    for (const Mirror& mirror : kMirrors) {
      if (!is_on(stage.table.find(mirror.key))) continue;
      const auto of_class = mirrored_class(build.data().classes, mirror.turns_over);
      const auto name = of_class ? of_class : mirrored_column(columns, mirror.turns_over);
      if (!name) continue;
      return fmt::format(
          "{}: {} mirrors {}, and {} '{}' names a side, which is wrong in the mirror image; --set {}.{}.{}={} turns it off",
          place_of(stage, build.plan()), mirror.key, mirror.turns_over ? "top and bottom" : "left and right",
          of_class ? "class" : "column", line_text(*name), build.plan().name, stage.name, mirror.key, mirror.off);
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> doubts_of_names(const Names& classes) {
  std::vector<std::string> doubts;
  for (std::string text : {number_in_two_ways(classes), several_labels(classes), names_and_positions(classes), dates(classes)}) {
    if (!text.empty()) doubts.push_back(std::move(text));
  }
  return doubts;
}

void look_at_class_names(const GraphBuild& build, const Doubt& doubt) {
  const GraphData& data = build.data();
  const bool are_listed = !data.source->sampling().only.empty() || data.source_plan->table.find("classes") != nullptr;
  Names doubts = are_listed ? Names() : doubts_of_names(data.classes);
  if (std::string alike = classes_alike(data.classes); !alike.empty()) doubts.push_back(std::move(alike));
  for (const std::string& text : doubts) doubt(fmt::format("{}: {}", place_of_source(build), text));
}

void check_class_names(const PreparedRun& run, const Doubt& doubt) {
  for (const auto& build : run.builds) {
    if (build->trains() && build->data().source != nullptr) look_at_class_names(*build, doubt);
  }
}

// A class or a column of numbers that names a direction, such as "turn_left", while images are mirrored.
void check_mirrors(const PreparedRun& run, const Doubt& doubt) {
  for (const auto& build : run.builds) doubt(mirrored_direction(*build));
}

}  // namespace millrace
