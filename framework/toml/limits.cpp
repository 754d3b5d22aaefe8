#include "toml/limits.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace millrace {
namespace {

// Parses just enough of TOML to distinguish keys, brackets and texts.
class NestingScan {
 public:
  explicit NestingScan(std::string_view text) : text_(text) {}

  std::optional<TextPlace> run() {
    while (at_ < text_.size()) {
      step();
      if (depth() > kDeepestNesting) return place();
    }
    return std::nullopt;
  }

 private:
  // An open table or list, or the file: the dots of the current key, and those of the key whose value is being read.
  struct Open {
    int dots = 0, key = 0;
    bool value = false;
  };

  int depth() const {
    return std::accumulate(open_.begin(), open_.end(), header_ - 1,
                           [](int sum, const Open& open) { return sum + 1 + open.key + (open.value ? 0 : open.dots); });
  }

  void step() {
    const char c = text_[at_];
    if (c == '"' || c == '\'') return skip_text(c);
    ++at_;
    Open& last = open_.back();
    switch (c) {
      case '#': at_ = std::min(text_.find('\n', at_), text_.size()); break;
      case '\n':
        if (open_.size() == 1) begin_line();
        break;
      case '.': last.dots += last.value ? 0 : 1; break;
      case '=':
        last.key = last.dots;
        last.value = true;
        break;
      case ',': last = {.dots = 0, .key = 0, .value = last.value && is_list_.back()}; break;
      case '[':
      case '{':
        if (open_.size() == 1 && !last.value) return begin_header();
        open_.push_back({.dots = 0, .key = 0, .value = c == '['});
        is_list_.push_back(c == '[');
        break;
      case ']':
      case '}':
        if (open_.size() > 1) {
          open_.pop_back();
          is_list_.pop_back();
        }
        break;
      default: break;
    }
  }

  void begin_line() { open_.front() = {}; }

  // [a.b] or [[a.b]]; its end does not end a value.
  void begin_header() {
    header_ = 1;
    while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != ']' && header_ <= kDeepestNesting) {
      if (text_[at_] == '"' || text_[at_] == '\'') {
        skip_text(text_[at_]);
        continue;
      }
      header_ += text_[at_++] == '.' ? 1 : 0;
    }
    while (at_ < text_.size() && text_[at_] == ']') ++at_;
  }

  // From its opening quotes to after its closing ones. Triple quotes may contain several lines, and up to two quotes before the
  // closing ones.
  void skip_text(char quote) {
    const std::string_view mark = text_.substr(at_, 3);
    const bool is_long = mark.size() == 3 && mark[1] == quote && mark[2] == quote;
    at_ += is_long ? 3 : 1;
    while (at_ < text_.size()) {
      if (quote == '"' && text_[at_] == '\\') {
        at_ += 2;
      } else if (!is_long && (text_[at_] == quote || text_[at_] == '\n')) {
        at_ += text_[at_] == quote ? 1 : 0;
        return;
      } else if (is_long && text_.substr(at_, 3) == mark) {
        at_ += 3;
        for (int more = 0; more < 2 && at_ < text_.size() && text_[at_] == quote; ++more) ++at_;
        return;
      } else {
        ++at_;
      }
    }
  }

  TextPlace place() const {
    const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
    const auto lines = std::count(before.begin(), before.end(), '\n');
    return {static_cast<int>(lines) + 1, static_cast<int>(before.size() - (before.rfind('\n') + 1))};  // none: npos + 1 is 0
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  int header_ = 0;  // names in the section's header
  std::vector<Open> open_ = {{}};
  std::vector<bool> is_list_ = {false};
};

}  // namespace

std::optional<TextPlace> too_deep(std::string_view toml) { return NestingScan(toml).run(); }

bool is_deeper(const Value& value, int most) {
  const auto inner = [&](const Value& part) { return is_deeper(part, most - 1); };
  if (value.kind() == Value::Kind::array) return most == 0 || std::any_of(value.array().begin(), value.array().end(), inner);
  if (value.kind() != Value::Kind::table) return false;
  const auto member = [&](const Member& each) { return inner(each.value); };
  return most == 0 || std::any_of(value.table().begin(), value.table().end(), member);
}

std::size_t size_of(const Value& value, std::size_t most) {
  std::size_t size = 16;
  const auto add = [&](const Value& part, std::size_t key) {
    if (size < most) size += key + size_of(part, most - size);
  };
  if (value.kind() == Value::Kind::text) size += value.text().size();
  if (value.kind() == Value::Kind::array) {
    for (const Value& element : value.array()) add(element, 0);
  }
  if (value.kind() == Value::Kind::table) {
    for (const Member& member : value.table()) add(member.value, member.key.size());
  }
  return size;
}

}  // namespace millrace
