#include "millrace/util/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "util/characters.h"
#include "util/secrets.h"

namespace millrace {

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t at) -> unsigned { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return {};
  char32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    code = code << 6U | (byte(i) & 0x3fU);
  }
  const bool is_longer_than_needed = code < (bytes == 4 ? 0x10000U : bytes == 3 ? 0x800U : 0x80U);
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  return is_longer_than_needed || is_surrogate || code > 0x10ffff ? Character{} : Character{bytes, code};
}

// Embeddings, overrides and isolates change the direction; two separators break a line.
bool upsets_terminal(char32_t code) {
  const bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  return is_control || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The byte of the escape at the beginning of the text; -1 if there is none.
int escaped_byte(std::string_view text) {
  if (text.size() < 4 || text[0] != '\\' || text[1] != 'x' || digit(text[2]) < 0 || digit(text[3]) < 0) return -1;
  return 16 * digit(text[2]) + digit(text[3]);
}

// The whole text, such as "-1" for a class.
bool is_numeric(std::string_view text) {
  double number = 0;
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  if (text.find_first_of("0123456789.") != 0) return false;  // excludes a second sign and "inf"
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// The four characters, and their wide forms in East Asian locales.
bool begins_formula(char32_t code) {
  constexpr std::u32string_view kCodes = U"=+-@\uff1d\uff0b\uff0d\uff20";
  return kCodes.find(code) != std::u32string_view::npos;
}

template <class Stays>
void append_escaped(std::string& out, std::string_view text, const Stays& stays) {
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::string_view bytes = text.substr(0, std::max<std::size_t>(character.bytes, 1));
    if (character.bytes > 0 && stays(character.code, text)) {
      out += bytes;
    } else {
      for (const char c : bytes) fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(bytes.size());
  }
}

template <class Stays>
std::string escaped(std::string_view text, const Stays& stays) {
  std::string out;
  append_escaped(out, text, stays);
  return out;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Character character = first_character(bytes);
    if (character.bytes == 0) return false;
    bytes.remove_prefix(character.bytes);
  }
  return true;
}

void append_name(std::string& text, std::string_view name) {
  append_escaped(text, name, [](char32_t, std::string_view rest) { return escaped_byte(rest) < 0; });
}

std::string name_text(std::string_view name) {
  std::string text;
  append_name(text, name);
  return text;
}

std::string utf8_text(std::string_view bytes) { return is_utf8(bytes) ? std::string(bytes) : name_text(bytes); }

std::string line_text(std::string_view text) {
  return escaped(text, [](char32_t code, std::string_view) { return !upsets_terminal(code); });
}

void append_cell(std::string& line, std::string_view text) {
  if (is_numeric(text)) {
    line += text;
    return;
  }
  const auto stays = [begin = text.data()](char32_t code, std::string_view rest) {
    const bool may_begin = rest.data() == begin || rest.data()[-1] == ';';
    return !upsets_terminal(code) && !(may_begin && begins_formula(code));
  };
  append_escaped(line, text, stays);
}

std::string shown(std::string_view text, std::size_t most) {
  if (text.size() <= most) return line_text(text);
  const std::string whole = without_secrets(std::string(text));  // before cutting, since a cut secret would not be recognised
  text = whole;
  if (text.size() <= most) return line_text(text);
  const auto is_inside = [&] { return most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0U) == 0x80; };
  for (int steps = 0; steps < 3 && is_inside(); ++steps) --most;  // to the beginning of a character
  return line_text(text.substr(0, most)) + "...";
}

std::string bytes_of(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const int byte = escaped_byte(text);
    bytes += byte < 0 ? text.front() : static_cast<char>(byte);
    text.remove_prefix(byte < 0 ? 1 : 4);
  }
  return bytes;
}

std::string terminal_text(std::string_view text) {
  return escaped(text, [](char32_t code, std::string_view) { return code == '\n' || code == '\t' || !upsets_terminal(code); });
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f", kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);  // npos + 1 is 0
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lower;
}

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
  const std::string_view line = text.substr(0, end);
  const bool is_pair = text.substr(end).starts_with("\r\n");
  text.remove_prefix(std::min(end + (is_pair ? 2 : 1), text.size()));
  return line;
}

}  // namespace millrace
