#include "comments.h"

#include <algorithm>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <utility>

#include "source_file.h"

namespace millrace::architecture {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kWidth = 130;  // ColumnLimit of .clang-format

// The text after "//" on a line with only a comment. Empty if there is none.
std::optional<std::string> comment_text(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string::npos || line.compare(begin, 2, "//") != 0) return std::nullopt;
  const std::string text = line.substr(begin + 2);
  if (text.find_first_not_of(' ') == std::string::npos) return std::nullopt;
  return text;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::size_t indent_of(const std::string& text) { return text.find_first_not_of(' '); }

// Columns where words begin after at least this many blanks.
std::set<std::size_t> columns_of(const std::string& text, std::size_t blanks) {
  std::set<std::size_t> columns;
  for (std::size_t at = indent_of(text); (at = text.find("  ", at)) != std::string::npos;) {
    const std::size_t next = text.find_first_not_of(' ', at);
    if (next == std::string::npos) break;
    if (next - at >= blanks) columns.insert(next);
    at = next;
  }
  return columns;
}

bool holds_two_rows(const std::string& text) {
  static const std::regex second_row(R"(\S +[\w.]+ {2,}= )"), words_before(R"(^ *\w+ +\w+ *= .* {2,}# )");
  return std::regex_search(text, second_row) || std::regex_search(text, words_before);
}

bool leaves_columns(const std::string& before, const std::string& text) {
  const std::set<std::size_t> columns = columns_of(before, 2), own = columns_of(text, 3);
  return !columns.empty() && !own.empty() &&
         std::none_of(own.begin(), own.end(), [&](std::size_t column) { return columns.contains(column); });
}

}  // namespace

std::vector<int> fragments(const std::vector<std::string>& lines) {
  std::vector<int> found;
  bool in_comment = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::optional<std::string> text = comment_text(lines[i]);
    if (text && !in_comment && text->starts_with(" Of ")) found.push_back(static_cast<int>(i + 1));
    in_comment = text.has_value();
  }
  return found;
}

std::vector<int> reflowed_comments(const std::vector<std::string>& lines) {
  std::vector<int> found;
  std::optional<std::string> before, text, after;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    before = std::exchange(text, i == 0 ? comment_text(lines[0]) : after);
    after = i + 1 < lines.size() ? comment_text(lines[i + 1]) : std::nullopt;
    if (!text) continue;
    const std::vector<std::string> words = words_of(*text);
    const bool was_broken = before && lines[i - 1].size() + 1 + words.front().size() > kWidth;
    const bool left_over = was_broken && words.size() <= 3 && after && indent_of(*after) >= indent_of(*text) + 4;
    const bool has_columns = text->find("  ", indent_of(*text)) != std::string::npos;
    if (left_over || (has_columns && (holds_two_rows(*text) || (was_broken && leaves_columns(*before, *text)))))
      found.push_back(static_cast<int>(i + 1));
  }
  return found;
}

Findings check_comments(const fs::path& root) {
  Findings findings;
  for (const char* part : {"framework", "plugins", "tools", "tests"}) {
    for (const fs::path& file : cpp_files(root / part)) {
      const std::vector<std::string> lines = read_lines(file);
      const std::string name = fs::relative(file, root).string();
      const auto note = [&](int line, const std::string& what) {
        findings.push_back(name + ":" + std::to_string(line) + ": " + what);
      };
      for (const int line : reflowed_comments(lines)) {
        note(line, "a row of this comment was joined or broken; make it one row again, indented by two blanks or more");
      }
      if (!name.starts_with("framework/include") && !name.starts_with("plugins/backends")) continue;
      for (const int line : fragments(lines)) note(line, "this comment begins with \"Of\"; make it a sentence with a subject");
    }
  }
  return findings;
}

}  // namespace millrace::architecture
