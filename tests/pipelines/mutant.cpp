#include "mutant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "millrace/detail/random.h"

namespace millrace::test {
namespace {

using Kind = Mutant::Kind;

struct Token {
  Kind kind;
  std::size_t begin, end;  // in the text; of a name without its quotes
  std::string key;         // the last key before it
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_+-.").find(c) != std::string_view::npos;
}
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Finds the words and texts of TOML as our files write it: no texts of several lines, no quotes within quotes.
class Tokens {
 public:
  explicit Tokens(const std::string& text) : text_(text) {
    while (at_ < text_.size()) step();
  }
  const std::vector<Token>& all() const { return tokens_; }

 private:
  void step() {
    const char c = text_[at_];
    const bool begins_line = at_ == 0 || text_[at_ - 1] == '\n';
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '"') {
      const std::size_t end = std::min(text_.find('"', at_ + 1), text_.size() - 1);
      add(Kind::name, at_ + 1, end);
      at_ = end + 1;
    } else if (c == '[' && begins_line) {
      const std::size_t end = std::min(text_.find(']', at_), text_.size());
      add(Kind::table, at_ + 1, end);
      at_ = end;
    } else if (is_word(c)) {
      word();
    } else {
      ++at_;
    }
  }

  void word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::size_t next = text_.find_first_not_of(' ', at_);
    const std::string found = text_.substr(begin, at_ - begin);
    if (next != std::string::npos && text_[next] == '=') {
      add(Kind::key, begin, at_);
      key_ = found;
    } else {
      add(found == "true" || found == "false" ? Kind::type : Kind::number, begin, at_);
    }
  }

  void add(Kind kind, std::size_t begin, std::size_t end) { tokens_.push_back({kind, begin, end, key_}); }

  const std::string& text_;
  std::size_t at_ = 0;
  std::string key_;
  std::vector<Token> tokens_;
};

char neighbour(char c, Draw& draw) {
  static constexpr std::array<std::string_view, 3> kRows = {"qwertyuiop", "asdfghjkl", "zxcvbnm"};
  for (const std::string_view row : kRows) {
    const std::size_t at = row.find(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    if (at == std::string_view::npos) continue;
    const bool left = at + 1 == row.size() || (at > 0 && draw.chance(0.5));
    return row[left ? at - 1 : at + 1];
  }
  return 'x';
}

class Maker {
 public:
  Maker(const std::string& text, std::uint64_t seed) : text_(text), tokens_(text), draw_(seed, {}, 0) {}

  Mutant make() {
    static constexpr std::array kKinds = {Kind::key,    Kind::key,    Kind::name, Kind::name, Kind::table, Kind::reference,
                                          Kind::number, Kind::number, Kind::type, Kind::flow, Kind::line,  Kind::bracket};
    while (true) {
      if (auto made = make(kKinds[below(kKinds.size())])) return std::move(*made);
    }
  }

 private:
  std::optional<Mutant> make(Kind kind) {
    switch (kind) {
      case Kind::number:
        return replaced(kind, {Kind::number},
                        {"-1", "0", "-0.5", "1e30", "inf", "nan", "1000000000", "9223372036854775807", "99999999999999999999",
                         "\"many\"", "[1, 2]", "{}", "true"});
      case Kind::type: return replaced(kind, {Kind::name, Kind::type}, {"7", "[]", "{}", "true", "\"\"", "\"x\"", "[1, \"a\"]"});
      case Kind::flow: return rearranged();
      case Kind::line: return without_line();
      case Kind::bracket: return without_bracket();
      default: return misspelt(kind);
    }
  }

  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(draw_.integer(0, static_cast<std::int64_t>(bound) - 1));
  }

  const Token* one_of(const std::vector<Kind>& kinds) {
    std::vector<const Token*> fitting;
    for (const Token& token : tokens_.all()) {
      if (std::find(kinds.begin(), kinds.end(), token.kind) != kinds.end()) fitting.push_back(&token);
    }
    return fitting.empty() ? nullptr : fitting[below(fitting.size())];
  }

  Mutant changed(Kind kind, std::size_t begin, std::size_t end, const std::string& with) const {
    Mutant made;
    made.kind = kind;
    made.text = text_.substr(0, begin) + with + text_.substr(end);
    made.line = 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(begin), '\n'));
    made.before = text_.substr(begin, end - begin);
    made.after = with;
    return made;
  }

  std::optional<Mutant> misspelt(Kind kind) {
    const bool is_reference = kind == Kind::reference;
    const Token* token = one_of({is_reference ? Kind::name : kind});
    if (!token) return std::nullopt;
    std::size_t begin = token->begin, end = token->end;
    const std::size_t reference = text_.substr(begin, end - begin).find("${");
    if (is_reference != (reference != std::string::npos)) return std::nullopt;
    if (is_reference) {
      begin += reference + 2;
      end = text_.find('}', begin);
    }
    const std::string word = text_.substr(begin, end - begin), wrong = typo(word);
    if (wrong == word) return std::nullopt;
    Mutant made = changed(kind, begin, end, wrong);
    made.key = token->key;
    return made;
  }

  std::string typo(std::string word) {
    std::vector<std::size_t> letters;
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (is_letter(word[i])) letters.push_back(i);
    }
    if (letters.size() < 2) return word;
    const std::size_t at = letters[below(letters.size())];
    switch (below(4)) {
      case 0:
        if (at + 1 < word.size()) std::swap(word[at], word[at + 1]);
        return word;
      case 1: return word.erase(at, 1);
      case 2: return word.insert(at, 1, word[at]);
      default: word[at] = neighbour(word[at], draw_); return word;
    }
  }

  std::optional<Mutant> replaced(Kind kind, const std::vector<Kind>& kinds, const std::vector<std::string>& values) {
    const Token* token = one_of(kinds);
    if (!token) return std::nullopt;
    const std::size_t quote = token->kind == Kind::name ? 1 : 0;
    Mutant made = changed(kind, token->begin - quote, token->end + quote, values[below(values.size())]);
    made.key = token->key;
    if (made.before == made.after) return std::nullopt;
    return made;
  }

  // A stage is left out of a flow, is named twice, or stands before the one that was before it.
  std::optional<Mutant> rearranged() {
    std::vector<Token> stages;
    for (const Token& token : tokens_.all()) {
      if (token.kind == Kind::name && token.key == "flow") stages.push_back(token);
    }
    if (stages.size() < 2) return std::nullopt;
    const std::size_t index = 1 + below(stages.size() - 1);
    const Token &one = stages[index - 1], &two = stages[index];
    const std::string first = text_.substr(one.begin, one.end - one.begin), second = text_.substr(two.begin, two.end - two.begin);
    if (text_.substr(one.end, two.begin - one.end).find(']') != std::string::npos) return std::nullopt;  // of two flows
    const std::string kept[] = {first, second + "\", \"" + first, first + "\", \"" + first + "\", \"" + second};
    return changed(Kind::flow, one.begin, two.end, kept[below(3)]);
  }

  std::optional<Mutant> without_line() {
    std::vector<std::size_t> begins;
    for (std::size_t at = 0; at < text_.size(); at = std::min(text_.find('\n', at), text_.size() - 1) + 1) {
      if (text_[at] != '\n' && text_[at] != '#') begins.push_back(at);
    }
    const std::size_t begin = begins[below(begins.size())];
    return changed(Kind::line, begin, std::min(text_.find('\n', begin), text_.size()), "");
  }

  std::optional<Mutant> without_bracket() {
    const std::size_t at = text_.find_first_of("\"[]{}", below(text_.size()));
    if (at == std::string::npos) return std::nullopt;
    const std::size_t line = text_.rfind('\n', at) + 1;  // npos + 1 is 0
    if (text_.substr(line, at - line).find('#') != std::string::npos) return std::nullopt;
    return changed(Kind::bracket, at, at + 1, "");
  }

  const std::string& text_;
  const Tokens tokens_;
  Draw draw_;
};

}  // namespace

Mutant mutant_of(const std::string& text, std::uint64_t seed) { return Maker(text, seed).make(); }

}  // namespace millrace::test
