#include "xml.h"

#include <charconv>

#include "millrace/error.h"

namespace millrace::s3 {

namespace {

constexpr int kDeepest = 32;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_name(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' ||
         c == ':' || byte >= 0x80;
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6), add(0x80 | (code & 63));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12), add(0x80 | (code >> 6 & 63)), add(0x80 | (code & 63));
  } else {
    add(0xF0 | code >> 18), add(0x80 | (code >> 12 & 63)), add(0x80 | (code >> 6 & 63)), add(0x80 | (code & 63));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  XmlElement document() {
    if (rest().starts_with("\xEF\xBB\xBF")) at_ += 3;
    pass_over();
    XmlElement root = element(0);
    pass_over();
    if (at_ != text_.size()) wrong("something follows the root element");
    return root;
  }

 private:
  [[noreturn]] void wrong(std::string_view what) const {
    fail(ErrorKind::storage, "the reply is no XML: {} at byte {} of {}", what, at_, text_.size());
  }

  std::string_view rest() const { return text_.substr(at_); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(std::string_view token) {
    if (!rest().starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  // What stands before `token`, which is taken too.
  std::string_view until(std::string_view token, const char* what) {
    const std::size_t end = text_.find(token, at_);
    if (end == text_.npos) wrong(what);
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + token.size();
    return found;
  }

  void blanks() {
    while (is_blank(peek())) ++at_;
  }

  // Blanks, comments and declarations between elements.
  void pass_over() {
    while (true) {
      blanks();
      if (take("<!--")) {
        until("-->", "a comment without end");
      } else if (take("<?")) {
        until("?>", "a declaration without end");
      } else {
        return;
      }
    }
  }

  std::string_view name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin) wrong("expected a name");
    return text_.substr(begin, at_ - begin);
  }

  void attributes() {
    while (true) {
      blanks();
      if (peek() == '>' || peek() == '/') return;
      name();
      blanks();
      if (!take("=")) wrong("expected '=' after an attribute's name");
      blanks();
      const char quote = peek();
      if (quote != '"' && quote != '\'') wrong("expected a quoted value");
      ++at_;
      until(std::string_view(&quote, 1), "a value without end");
    }
  }

  XmlElement element(int depth) {
    if (depth > kDeepest) wrong("too many elements inside one another");
    if (!take("<")) wrong("expected an element");
    const std::string_view full = name();
    XmlElement result;
    result.name = full.substr(full.find(':') + 1);  // npos + 1 is 0
    attributes();
    if (take("/>")) return result;
    if (!take(">")) wrong("expected '>'");
    content(result, depth);
    if (name() != full) wrong("an end tag that does not match");
    blanks();
    if (!take(">")) wrong("expected '>'");
    return result;
  }

  // Up to and with "</".
  void content(XmlElement& element_, int depth) {
    while (at_ < text_.size()) {
      if (take("</")) return;
      if (take("<!--")) {
        until("-->", "a comment without end");
      } else if (take("<![CDATA[")) {
        element_.text += until("]]>", "a CDATA section without end");
      } else if (take("<?")) {
        until("?>", "an instruction without end");
      } else if (peek() == '<') {
        element_.children.push_back(element(depth + 1));
      } else if (take("&")) {
        entity(until(";", "an entity without end"), element_.text);
      } else {
        element_.text += text_[at_++];
      }
    }
    wrong("the document ends inside an element");
  }

  void entity(std::string_view body, std::string& out) const {
    static constexpr std::pair<std::string_view, char> kNamed[] = {
        {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    for (const auto& [word, character] : kNamed) {
      if (body == word) {
        out += character;
        return;
      }
    }
    if (!body.starts_with('#')) wrong("an unknown entity");
    body.remove_prefix(1);
    const bool hexadecimal = body.starts_with('x');
    if (hexadecimal) body.remove_prefix(1);
    std::uint32_t code = 0;
    const char* end = body.data() + body.size();
    const auto [stop, error] = std::from_chars(body.data(), end, code, hexadecimal ? 16 : 10);
    if (error != std::errc() || stop != end || code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      wrong("a character reference that names no character");
    }
    append_utf8(out, code);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

const XmlElement* XmlElement::child(std::string_view wanted) const {
  for (const XmlElement& element : children) {
    if (element.name == wanted) return &element;
  }
  return nullptr;
}

std::string_view XmlElement::text_of(std::string_view wanted) const {
  const XmlElement* found = child(wanted);
  return found ? std::string_view(found->text) : std::string_view();
}

XmlElement parse_xml(std::string_view text) { return Parser(text).document(); }

}  // namespace millrace::s3
