#include "class_sizes.h"

#include <algorithm>
#include <regex>
#include <string_view>

#include "source_file.h"

namespace millrace::architecture {
namespace {

// A file's code without preprocessor directives.
std::string text_of(const std::filesystem::path& file) {
  std::string text;
  bool goes_on = false;
  for (const std::string& line : code_of(file)) {
    const std::size_t first = line.find_first_not_of(" \t");
    const bool directive = goes_on || (first != std::string::npos && line[first] == '#');
    goes_on = directive && line.ends_with('\\');
    if (!directive) text += line;
    text += '\n';
  }
  return text;
}

// The end of the text up to the bracket that closes the one at `open`.
std::size_t behind_bracket(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '{' || text[i] == '[') ++depth;
    if ((text[i] == ')' || text[i] == '}' || text[i] == ']') && --depth == 0) return i + 1;
  }
  return text.size();
}

bool begins(const std::string& text, std::smatch& found, const std::regex& with) {
  return std::regex_search(text, found, with, std::regex_constants::match_continuous);
}

// A declaration without the contents of its brackets, including angle brackets, so that "std::function<void(int)> f = g(1);" has
// no bracket before its name.
std::string outline(std::string_view declaration) {
  std::string out;
  int pointed = 0;
  for (std::size_t i = 0; i < declaration.size(); ++i) {
    const char c = declaration[i];
    if (c == '<' && !out.ends_with("operator")) {
      ++pointed;
    } else if (c == '>' && pointed > 0 && declaration[i - 1] != '-') {
      --pointed;
    } else if (pointed == 0) {
      out += c;
      if (c == '(' || c == '{' || c == '[') i = behind_bracket(declaration, i) - 2;
    } else if (c == '(') {
      i = behind_bracket(declaration, i) - 1;
    }
  }
  return out;
}

class ClassReader {
 public:
  explicit ClassReader(std::string text) : text_(std::move(text)) {}

  // All classes defined from `at` to `end`, outside of classes.
  std::vector<ClassSize> outer() {
    static const std::regex head(R"(\b(class|struct)\s+(?:\[\[\w+\]\]\s*)?([\w:]+)(?:\s+final)?\s*(?::[^:;{}()][^;{}()]*)?\{)");
    for (std::size_t at = 0; at < text_.size();) {
      std::smatch found;
      if (!std::regex_search(text_.cbegin() + static_cast<std::ptrdiff_t>(at), text_.cend(), found, head)) break;
      const std::size_t begin = at + static_cast<std::size_t>(found.position());
      const std::size_t open = begin + found.str().size() - 1, end = behind_bracket(text_, open);
      const bool is_enum = text_.substr(0, begin).ends_with("enum ");
      if (!is_enum) read(found[2], found[1] == "struct", begin, open + 1, end - 1);
      at = end;
    }
    return std::move(sizes_);
  }

 private:
  void read(const std::string& name, bool is_public, std::size_t begin, std::size_t first, std::size_t last) {
    const std::size_t index = sizes_.size();
    sizes_.push_back({.name = name});
    sizes_[index].lines = static_cast<std::size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(begin),
                                                              text_.begin() + static_cast<std::ptrdiff_t>(last), '\n')) +
                          1;
    for (std::size_t at = first; at < last;) {
      const std::size_t end = end_of_member(at, last);
      take(index, is_public, at, end);
      at = end;
    }
  }

  // After the next label, declaration or function body.
  std::size_t end_of_member(std::size_t at, std::size_t last) const {
    static const std::regex label(R"(\s*(public|private|protected)\s*:(?!:))");
    std::smatch found;
    if (std::regex_search(text_.cbegin() + static_cast<std::ptrdiff_t>(at), text_.cbegin() + static_cast<std::ptrdiff_t>(last),
                          found, label, std::regex_constants::match_continuous)) {
      return at + found.str().size();
    }
    bool initialised = false;  // after the ':' of a constructor or the '=' of a field
    for (std::size_t i = at; i < last; ++i) {
      const char c = text_[i];
      if (c == ';') return i + 1;
      if (c == '=') initialised = true;
      if (c == '(' || c == '[') i = behind_bracket(text_, i) - 1;
      if (c != '{') continue;
      const std::size_t end = behind_bracket(text_, i);
      if (!initialised && is_body(std::string_view(text_).substr(at, i - at))) return end;
      i = end - 1;
    }
    return last;
  }

  // Whether the brace after this begins a function body.
  static bool is_body(std::string_view before) {
    const std::string head = outline(before);
    const std::size_t bracket = head.find('(');
    if (bracket == std::string::npos) return false;
    // In "Graph(int a) : a_{a}" the brace belongs to a field, unless the text before it is complete.
    const std::size_t colon = head.find(" : ", bracket);
    const std::size_t end = head.find_last_not_of(" \n\t");
    return colon == std::string::npos || head[end] == ')' || head[end] == '}';
  }

  void take(std::size_t index, bool& is_public, std::size_t at, std::size_t end) {
    static const std::regex label(R"(\s*(public|private|protected)\s*:)");
    static const std::regex nested(R"(\s*(?:template\s*<[^{]*>\s*)?(class|struct)\s+(\w+)[^;{(=]*\{)");
    static const std::regex nothing(
        R"(\s*(;|$|using\b|typedef\b|friend\b|static_assert\b|enum\b|(class|struct|union)\s+\w+\s*;))");
    const std::string member = text_.substr(at, end - at);
    std::smatch found;
    if (begins(member, found, label)) {
      is_public = found[1] == "public";
    } else if (begins(member, found, nested)) {
      const std::size_t open = at + found.str().size() - 1;
      const std::string name = sizes_[index].name + "::" + std::string(found[2]);
      read(name, found[1] == "struct", at + member.find_first_not_of(" \n"), open + 1, behind_bracket(text_, open) - 1);
    } else if (!begins(member, found, nothing)) {
      count(sizes_[index], is_public, member);
    }
  }

  static void count(ClassSize& size, bool is_public, const std::string& member) {
    static const std::regex macro(R"(\b(alignas|[A-Z_]{4,})\s*\([^()]*\))");
    static const std::regex constant(R"(\s*(inline\s+)?static\b)"), given(R"(=\s*(default|delete)\s*;)");
    const std::string head = outline(std::regex_replace(member, macro, ""));
    const std::size_t bracket = head.find('('), value = std::min(head.find('='), head.find('{'));
    const bool is_function = head.find("operator") != std::string::npos || (bracket != std::string::npos && bracket < value);
    std::smatch found;
    if (!is_function) {
      if (!begins(member, found, constant))
        size.fields += 1 + static_cast<std::size_t>(std::count(head.begin(), head.end(), ','));
    } else if (!std::regex_search(head, given)) {
      ++(is_public ? size.public_functions : size.private_functions);
    }
  }

  const std::string text_;
  std::vector<ClassSize> sizes_;
};

}  // namespace

std::vector<ClassSize> classes_in(const std::filesystem::path& file) { return ClassReader(text_of(file)).outer(); }

}  // namespace millrace::architecture
